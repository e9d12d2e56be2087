// The service, its guardian and its kernels are killed.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import { test } from 'node:test';
import { childrenOf, DEADLINE_MS, isAlive, program, Service, until } from './harness.mjs';

const nameOf = (pid) => fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim();
/** Of this service: the place of the connection file that a kernel of it was given. */
const runtimeDir = (service) => until('a kernel has a connection file', () => service.kernelPids().map((pid) => /\/tmp\/sandglass-interpreter-\w+/.exec(nameOf(pid))?.[0]).find(Boolean));

test('a serving process that is killed comes back, without its kernels', async () => {
  const service = await Service.start({ kernels: ['python3', 'javascript'] });
  const serving = service.serving, kernels = service.kernelPids();
  const child = Number(await service.outputOf('child'));
  assert.equal(kernels.length, 2);
  process.kill(serving, 'SIGKILL');
  await until('its kernels are gone', () => [...kernels, child].every((pid) => !isAlive(pid)));
  await service.isHealthy();
  assert.notEqual(service.serving, serving);
  assert.equal(await service.outputOf('print again'), 'again\n');
  assert.equal((await service.contexts()).length, 2);
  await service.stop();
});

test('a plain signal to the serving process does not end the service', async () => {
  const service = await Service.start({ kernels: ['python3'] });
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) {
    const serving = service.serving;
    process.kill(serving, signal);
    await until(`another one serves after ${signal}`, () => service.serving && service.serving !== serving);
    await service.isHealthy();
    assert.equal(await service.outputOf('print again'), 'again\n');
  }
  assert.ok(isAlive(service.guardian));
  await service.stop();
});

test('a guardian that is killed and a serving process that is told to end: it serves again', async () => {
  const service = await Service.start({ kernels: ['python3'] });
  const serving = service.serving;
  process.kill(serving, 'SIGSTOP');
  process.kill(service.guardian, 'SIGKILL');
  await service.ended;
  process.kill(serving, 'SIGTERM');
  process.kill(serving, 'SIGCONT');
  service.guardian = serving;
  await until('it serves again', () => service.serving);
  await service.isHealthy();
  await service.stop();
});

test('a request waits while the service is started again', async () => {
  const service = await Service.start({ kernels: ['python3'] });
  process.kill(service.serving, 'SIGKILL');
  assert.equal((await service.request('GET', '/health')).text, '"OK"'); // never refused
  await service.stop();
});

test('a guardian that is killed is replaced', async () => {
  const service = await Service.start({ kernels: ['python3', 'javascript'] });
  const serving = service.serving, kernels = service.kernelPids();
  process.kill(service.guardian, 'SIGKILL');
  await service.ended;
  await until('its kernels are gone', () => kernels.every((pid) => !isAlive(pid)));
  service.guardian = serving; // the same process has another task now
  await until('it serves again', () => service.serving);
  await service.isHealthy();
  assert.match(nameOf(service.guardian), /^code-guardian$/);
  assert.match(nameOf(service.serving), /sandglass-interpreter *--listen/);
  assert.equal(await service.outputOf('print again'), 'again\n');
  const again = service.serving;
  process.kill(again, 'SIGKILL'); // and it guards
  await until('another one serves', () => service.serving && service.serving !== again);
  await service.isHealthy();
  await service.stop();
});

test('the guardian does not have the name of the service', async () => {
  const service = await Service.start({ kernels: ['python3'] });
  assert.equal(nameOf(service.guardian), 'code-guardian');
  assert.match(nameOf(service.serving), /sandglass-interpreter *--listen/);
  await service.stop();
});

test('SIGTERM ends everything', async () => {
  const service = await Service.start({ kernels: ['python3', 'javascript'] });
  const dir = await runtimeDir(service);
  const serving = service.serving, kernels = service.kernelPids();
  const child = Number(await service.outputOf('child'));
  const stream = await service.open('print 1\ndeaf');
  await stream.has('stdout');
  process.kill(service.guardian, 'SIGTERM');
  assert.deepEqual(await service.ended, { code: 0, signal: null });
  for (const pid of [serving, ...kernels, child]) assert.ok(!isAlive(pid), `${pid}`);
  await until('the stream is cut', () => stream.isOver);
  assert.ok(!stream.text.includes('end_of_execution'));
  assert.ok(!fs.existsSync(dir));
  await service.stop();
});

test('connection files are private, and go with their kernels', async () => {
  const service = await Service.start({ kernels: ['python3'] });
  const dir = await runtimeDir(service);
  assert.equal(fs.statSync(dir).mode & 0o777, 0o700);
  const { id } = await service.createContext();
  assert.equal(fs.readdirSync(dir).length, 2);
  await service.request('DELETE', `/contexts/${id}`);
  assert.equal(fs.readdirSync(dir).length, 1);
  fs.rmSync(dir, { recursive: true }); // somebody empties /tmp
  const other = await service.createContext();
  assert.equal(await service.outputOf('print on', { context_id: other.id }), 'on\n');
  await service.stop();
});

test('a service without any kernel answers', async () => {
  const service = await Service.start({ kernels: ['bash'] });
  assert.deepEqual(await service.contexts(), []);
  await service.stop();
});

test('a default kernel that does not start does not keep the service from starting', async () => {
  const service = await Service.start({ kernels: ['javascript'] });
  service.addKernel('python3', { language: 'python', env: { FAKE_START: 'die' } });
  process.kill(service.serving, 'SIGKILL');
  await until('another one serves', () => service.serving);
  await service.isHealthy();
  assert.deepEqual((await service.contexts()).map((context) => context.language), ['javascript']);
  assert.equal((await service.execute('')).status, 500);
  await service.stop();
});

test('the service itself is small', async () => {
  const service = await Service.start({ kernels: ['python3'] });
  await service.execute('print 1');
  assert.ok(service.residentBytes() < 8 << 20, `${service.residentBytes()}`);
  assert.deepEqual(childrenOf(service.guardian).length, 1);
  await service.stop();
});

/** Processes with this text in their environment. */
const processesWith = (text) => fs.readdirSync('/proc').filter((name) => {
  try {
    return /^\d+$/.test(name) && fs.readFileSync(`/proc/${name}/environ`, 'latin1').includes(text);
  } catch {
    return false; // it has ended, or is another user's
  }
}).map(Number);

test('detached: the program ends when the port is open, and the service stays', async () => {
  const mark = `DETACHED_TEST=${process.pid}`;
  const ended = spawnSync(program, ['--listen', '127.0.0.1:0', '--detach', '--home', '/tmp', '--envd', 'http://127.0.0.1:9'],
    { stdio: ['ignore', fs.openSync('/dev/null', 'r+'), 'ignore'], env: { PATH: process.env.PATH, DETACHED_TEST: `${process.pid}` }, timeout: DEADLINE_MS });
  assert.equal(ended.status, 0);
  const guardian = await until('the guardian has its name', () => processesWith(mark).find((pid) => nameOf(pid) === 'code-guardian'));
  await until('it serves', () => childrenOf(guardian).some(isAlive));
  const [, group, session] = /\) \S \d+ (\d+) (\d+)/.exec(fs.readFileSync(`/proc/${guardian}/stat`, 'latin1')).map(Number);
  assert.deepEqual([group, session], [guardian, guardian]);
  process.kill(guardian, 'SIGTERM');
  await until('all of it has ended', () => processesWith(mark).length === 0);
});

test('the command line explains itself', async () => {
  const run = (...args) => spawnSync(program, args, { encoding: 'utf8' });
  assert.match(run('--version').stdout, /^sandglass-interpreter \d+\.\d+\.\d+.* \(libzmq 4\.\d+\.\d+\)\n$/);
  assert.match(run('--help').stdout, /^usage: sandglass-interpreter/);
  for (const [args, text] of [[['--what'], /unknown option '--what'/], [['--home'], /--home needs a value/],
    [['--envd', 'ftp://x'], /does not begin with http/], [['--envd', 'http://example.org:1'], /no IPv4 address/],
    [['--start-timeout', '0'], /not a number from 1 to 3600/]]) {
    const { status, stderr } = run(...args);
    assert.equal(status, 2);
    assert.match(stderr, text);
  }
  const holder = net.createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => holder.on('listening', resolve));
  const taken = run('--listen', `127.0.0.1:${holder.address().port}`);
  assert.deepEqual([taken.status, taken.stdout], [1, '']);
  assert.match(taken.stderr, /already in use/);
  holder.close();
});
