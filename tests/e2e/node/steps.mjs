// Runs named steps against one library and prints a line for each: "ok NAME" or "FAIL NAME: why".
// Arguments of every script: the mode (forward or cluster) and the port.
import { createRequire } from 'node:module';
import { deepStrictEqual } from 'node:assert';

export const mode = process.argv[2];
export const port = Number(process.argv[3]);
export const isCluster = mode === 'cluster';

// The libraries are installed outside the sources.
export const library = (name) => createRequire(process.env.E2E_NODE_MODULES + '/')(name);

export const same = (got, wanted, what = 'the value') => {
  try {
    deepStrictEqual(got, wanted);
  } catch {
    throw new Error(`${what} is ${JSON.stringify(got)}, wanted ${JSON.stringify(wanted)}`);
  }
};

export const fails = async (promise, pattern, what) => {
  try {
    await promise;
  } catch (error) {
    if (pattern.test(String(error))) return;
    throw new Error(`${what} failed with ${error}, wanted ${pattern}`);
  }
  throw new Error(`${what} did not fail`);
};

const inTime = (promise, seconds) => Promise.race([
  promise,
  new Promise((_, reject) => setTimeout(() => reject(new Error(`not done within ${seconds} s`)), seconds * 1000).unref()),
]);

export const run = async (steps, close) => {
  let failed = 0;
  for (const [name, step] of Object.entries(steps)) {
    try {
      await inTime(step(), 8);
      console.log(`ok ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`FAIL ${name}: ${error.message}`);
    }
  }
  try {
    await inTime(Promise.resolve(close()), 3);
  } catch (error) {
    failed += 1;
    console.log(`FAIL close: ${error.message}`);
  }
  process.exit(failed ? 1 : 0);
};
