// node-redis 5: createClient (RESP2 and RESP3) on the forward port, createCluster on the redirect endpoints.
import { fails, isCluster, library, port, run, same } from './steps.mjs';

const { createClient, createCluster } = library('redis');
const RESP = Number(process.argv[4] ?? 2);
const url = `redis://127.0.0.1:${port}`;
const make = async () => {
  const client = isCluster ? createCluster({ rootNodes: [{ url }], RESP }) : createClient({ url, RESP });
  client.on('error', () => {});
  return client.connect();
};
const keys = Array.from({ length: 60 }, (_, n) => `nr:${n}`);
let r;

await run({
  async connects() {
    r = await make();
    if (isCluster) same(r.masters.length, 3, 'the number of masters');
    else same(await r.ping(), 'PONG');
  },
  async strings() {
    for (const key of keys) same(await r.set(key, `v${key}`), 'OK');
    for (const key of keys) same(await r.get(key), `v${key}`);
    same(await r.get('nr:none'), null);
    same(await r.incrBy('nr:n', 41), 41);
    same(await r.incr('nr:n'), 42);
  },
  async types() {
    same(await r.hSet('nr:h', { a: '1', b: '2' }), 2);
    same({ ...(await r.hGetAll('nr:h')) }, { a: '1', b: '2' });
    same(await r.rPush('nr:l', ['1', '2', '3']), 3);
    same(await r.lRange('nr:l', 0, -1), ['1', '2', '3']);
    same(await r.zAdd('nr:z', [{ score: 1, value: 'a' }, { score: 2.5, value: 'b' }]), 2);
    same(await r.zScore('nr:z', 'b'), 2.5);
    same(await r.zRangeWithScores('nr:z', 0, -1), [{ value: 'a', score: 1 }, { value: 'b', score: 2.5 }]);
    same(await r.xAdd('nr:x', '1-1', { f: 'v' }), '1-1');
    same((await r.xRange('nr:x', '-', '+')).map((entry) => ({ ...entry.message })), [{ f: 'v' }]);
    same(await r.sAdd('nr:s', ['a']), 1);
    same([...(await r.sMembers('nr:s'))], ['a']);
  },
  async large() {
    const big = 'abcdefg'.repeat(400_000);
    same(await r.set('nr:big', big), 'OK');
    same((await r.get('nr:big')) === big, true, 'the 2.8 MB are equal');
  },
  async pipelines() {
    const got = await Promise.all(keys.flatMap((key, n) => [r.set(key, String(n)), r.get(key)]));
    same(got, keys.flatMap((_, n) => ['OK', String(n)]));
  },
  async manyKeys() {
    if (isCluster) {
      same(await r.mSet({ '{t}a': '1', '{t}b': '2' }), 'OK');
      same(await r.mGet(['{t}b', '{t}a']), ['2', '1']);
      await fails(r.mGet(keys), /CROSSSLOT/, 'MGET over slots');
      return;
    }
    same(await r.mGet(keys), keys.map((_, n) => String(n)));
    same(await r.exists(keys), 60);
    same(await r.del(keys), 60);
  },
  async scripts() {
    const { createHash } = await import('node:crypto');
    const script = "return redis.call('INCRBY', KEYS[1], ARGV[1])";
    const sha = createHash('sha1').update(script).digest('hex');
    for (let n = 0; n < 20; n++) same(await r.eval(script, { keys: [`nr:e${n}`], arguments: [String(n)] }), n);
    for (let n = 0; n < 20; n++) {
      const options = { keys: [`nr:e${n}`], arguments: ['1'] };
      const got = await r.evalSha(sha, options).catch(() => r.eval(script, options));
      same(got, n + 1);
    }
  },
  async scan() {
    if (isCluster) return;
    await Promise.all(keys.map((key) => r.set(`${key}:scan`, '1')));
    const seen = [];
    for await (const page of r.scanIterator({ MATCH: 'nr:*:scan', COUNT: 20 })) seen.push(...page);
    same(seen.sort(), keys.map((key) => `${key}:scan`).sort());
  },
  async errors() {
    await fails(r.hGet('nr:n', 'f'), /WRONGTYPE/, 'HGET of a string');
    if (!isCluster) await fails(r.sendCommand(['NOSUCH']), /unknown command/, 'an unknown command');
    same(await r.set('nr:n', 'x'), 'OK');
  },
  async clientCommands() {
    if (isCluster) return;
    same(await r.clientSetName('tester'), 'OK');
    same(await r.clientGetName(), 'tester');
    same(typeof (await r.clientId()), 'number');
    same(/redis_version:/.test(await r.info()), true, 'INFO has redis_version');
  },
}, () => r.close());
