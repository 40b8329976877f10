// ioredis 5: plain on the forward port, Cluster on the redirect endpoints.
import { fails, isCluster, library, port, run, same } from './steps.mjs';

const { Redis, Cluster } = library('ioredis');
const make = (options = {}) => {
  const client = isCluster
    ? new Cluster([{ host: '127.0.0.1', port }], { redisOptions: options })
    : new Redis({ host: '127.0.0.1', port, ...options });
  client.on('error', () => {});
  return client;
};
const r = make();
const keys = Array.from({ length: 60 }, (_, n) => `io:${n}`);

await run({
  async connects() {
    same(await r.ping(), 'PONG');
    if (isCluster) same(r.nodes('master').length, 3, 'the number of masters');
  },
  async strings() {
    for (const key of keys) same(await r.set(key, `v${key}`), 'OK');
    for (const key of keys) same(await r.get(key), `v${key}`);
    same(await r.get('io:none'), null);
    same(await r.set('io:0', 'x', 'EX', 100, 'XX', 'GET'), 'vio:0');
    same(await r.incrby('io:n', 41), 41);
    same(await r.incr('io:n'), 42);
  },
  async types() {
    same(await r.hset('io:h', { a: 1, b: 2 }), 2);
    same({ ...(await r.hgetall('io:h')) }, { a: '1', b: '2' });
    same(await r.rpush('io:l', 1, 2, 3), 3);
    same(await r.lrange('io:l', 0, -1), ['1', '2', '3']);
    same(await r.zadd('io:z', 1, 'a', 2.5, 'b'), 2);
    same(await r.zrange('io:z', 0, -1, 'WITHSCORES'), ['a', '1', 'b', '2.5']);
    same((await r.xadd('io:x', '1-1', 'f', 'v')), '1-1');
    same(await r.xrange('io:x', '-', '+'), [['1-1', ['f', 'v']]]);
    same(await r.pfadd('io:p', 'a', 'b'), 1);
    same(await r.type('io:z'), 'zset');
  },
  async binary() {
    const bytes = Buffer.from([...Array(256).keys()]);
    same(await r.set(bytes, bytes), 'OK');
    same((await r.getBuffer(bytes)).equals(bytes), true, 'the bytes are equal');
  },
  async large() {
    const big = Buffer.alloc(3_000_000, 'abcdefg');
    same(await r.set('io:big', big), 'OK');
    same((await r.getBuffer('io:big')).equals(big), true, 'the 3 MB are equal');
  },
  async pipelines() {
    if (isCluster) {
      const p = r.pipeline();
      for (let n = 0; n < 500; n++) p.incr('{io}count');
      same((await p.exec()).map(([, value]) => value), Array.from({ length: 500 }, (_, n) => n + 1));
      return;
    }
    const p = r.pipeline();
    for (let n = 0; n < 1000; n++) p.set(`io:p${n}`, n).get(`io:p${n}`);
    const got = await p.exec();
    same(got.length, 2000);
    got.forEach(([error, value], n) => same([error, value], [null, n % 2 ? String((n - 1) / 2) : 'OK'], `reply ${n}`));
  },
  async autopipelining() {
    const auto = isCluster
      ? new Cluster([{ host: '127.0.0.1', port }], { enableAutoPipelining: true })
      : make({ enableAutoPipelining: true });
    await Promise.all(keys.map((key) => auto.set(key, key)));
    same(await Promise.all(keys.map((key) => auto.get(key))), keys);
    auto.disconnect();
  },
  async manyKeys() {
    if (isCluster) {
      await fails(r.mget(keys), /CROSSSLOT/, 'MGET over slots');
      same(await r.mset('{t}a', 1, '{t}b', 2), 'OK');
      same(await r.mget('{t}b', '{t}a'), ['2', '1']);
      return;
    }
    same(await r.mset(keys.flatMap((key) => [key, key])), 'OK');
    same(await r.mget([...keys].reverse()), [...keys].reverse());
    same(await r.exists(...keys, 'io:none'), 60);
    same(await r.del(...keys.slice(0, 30)), 30);
    same(await r.unlink(...keys), 30);
  },
  async scripts() {
    r.defineCommand('twice', { numberOfKeys: 1, lua: "return {KEYS[1], redis.call('INCRBY', KEYS[1], ARGV[1] * 2)}" });
    for (let n = 0; n < 30; n++) same(await r.twice(`io:s${n}`, n), [`io:s${n}`, 2 * n]);
    if (isCluster) return;
    const p = r.pipeline();
    for (let n = 0; n < 30; n++) p.twice(`io:s${n}`, n);
    (await p.exec()).forEach(([error, value], n) => same([error, value], [null, [`io:s${n}`, 4 * n]]));
  },
  async scan() {
    const masters = isCluster ? r.nodes('master') : [r];
    const written = Array.from({ length: 200 }, (_, n) => `io:scan:${n}`);
    await Promise.all(written.map((key) => r.set(key, 1)));
    const seen = [];
    for (const one of masters) {
      for await (const page of one.scanStream({ match: 'io:scan:*', count: 20 })) seen.push(...page);
    }
    same(seen.sort(), [...written].sort());
  },
  async errors() {
    await fails(r.hget('io:n', 'f'), /WRONGTYPE/, 'HGET of a string');
    await fails(r.call('NOSUCH', 'io:n'), /unknown command/, 'an unknown command');
    await fails(r.call('GET', 'io:n', 'x'), /wrong number of arguments/, 'a wrong arity');
    same(await r.ping(), 'PONG');
  },
  async reconnects() {
    const other = make();
    await other.set('io:n', 'x');
    const sockets = isCluster ? other.nodes('all') : [other];
    for (const one of sockets) one.stream?.destroy();
    same(await other.get('io:n'), 'x');
    other.disconnect();
  },
}, () => r.quit());
