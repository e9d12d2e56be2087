// Kernels that die, hang, or are taken away.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { childrenOf, fakeKernel, isAlive, Service, until } from './harness.mjs';

let service, census;
before(async () => {
  service = await Service.start({ args: ['--start-timeout', '5'] });
  service.addKernel('killed', { language: 'killed', argv: ['/bin/sh', '-c', `echo $$ >${service.dir}/new-pid && mv ${service.dir}/new-pid ${service.dir}/killed-pid; exec ${fakeKernel} "$1"`, 'sh', '{connection_file}'] });
  await service.execute('');
  census = service.census();
});
after(async () => {
  await service.isAsBefore(census);
  await service.stop();
});

const RESTARTED = { type: 'error', name: 'ContextRestarting', value: 'Context was restarted', traceback: '' };
const LOST = [
  { type: 'error', name: 'WebSocketError', value: 'The connections was lost, rerun the code to get the results', traceback: '' },
  { type: 'error', name: 'UnexpectedEndOfExecution', value: 'Connection to the execution was closed before the execution was finished', traceback: '' },
  { type: 'end_of_execution' },
];
const post = (target, body) => service.request('POST', target, { body });

test('a kernel that dies in a run is started again, with the same id and the same directory', async () => {
  const { id } = await service.createContext({ cwd: '/' });
  const { lines } = await service.execute('print before\nexit 3', { context_id: id });
  assert.deepEqual(lines.slice(1).map((line) => line.text ?? line), ['before\n', RESTARTED, { type: 'end_of_execution' }]);
  const again = await service.execute('cwd', { context_id: id });
  assert.deepEqual([again.lines[0].execution_count, again.lines[1].text], [1, '/\n']);
  await service.request('DELETE', `/contexts/${id}`);
});

const SUCCESS = ['number_of_executions', 'stdout', 'end_of_execution'];
const typesOf = (lines) => lines.map((line) => line.name ?? line.type);
const kill = async (pid) => {
  process.kill(pid, 'SIGKILL');
  await until('it is dead', () => !isAlive(pid));
};

test('a kernel that is killed while it is idle is started again, and the next run does not notice', async () => {
  const pid = Number(await service.outputOf('pid'));
  await kill(pid);
  const { lines } = await service.execute('pid');
  assert.deepEqual(typesOf(lines), SUCCESS);
  assert.notEqual(Number(lines[1].text), pid);
});

test('a kernel that dies while variables are set: the run goes on with the next kernel', async () => {
  const { id } = await service.createContext();
  const pid = Number(await service.outputOf('pid', { context_id: id }));
  process.kill(pid, 'SIGSTOP');
  const stream = await service.open('silent', { context_id: id, env_vars: { A: '1' } });
  await service.contexts(); // meanwhile the statement was sent
  await kill(pid);
  const lines = await stream.lines();
  assert.deepEqual(typesOf(lines), SUCCESS);
  assert.match(lines[1].text, /__setitem__/);
  await service.request('DELETE', `/contexts/${id}`);
});

test('a kernel that dies each time variables are set: the run ends with an error', async () => {
  service.addKernel('brittle', { language: 'python', env: { FAKE_START: 'brittle' } });
  const { id } = await service.createContext({ language: 'brittle' });
  const { lines } = await service.execute('print never', { context_id: id, env_vars: { A: '1' } });
  assert.deepEqual(lines, [RESTARTED, { type: 'end_of_execution' }]);
  assert.deepEqual(typesOf((await service.execute('print on', { context_id: id })).lines), SUCCESS);
  await service.request('DELETE', `/contexts/${id}`);
});

test('the code of a client that left never runs, also when its kernel died before', async () => {
  const { id } = await service.createContext();
  await kill(Number(await service.outputOf('pid', { context_id: id })));
  const stream = await service.open(`busy ${path.join(service.dir, 'never')}`, { context_id: id });
  stream.leave();
  assert.deepEqual(typesOf((await service.execute('print on', { context_id: id })).lines), SUCCESS);
  await service.request('DELETE', `/contexts/${id}`);
});

test('an idle kernel that is killed again and again, after some life each time, is started each time', async () => {
  const { id } = await service.createContext({ language: 'killed' });
  for (let i = 0; i < 5; i++) {
    const file = path.join(service.dir, 'killed-pid'), pid = Number(await until('it has begun', () => fs.existsSync(file) && fs.readFileSync(file, 'utf8').trim()));
    fs.unlinkSync(file);
    const lived = Date.now() + 4000;
    await until('it has lived for a while', () => Date.now() > lived);
    process.kill(pid, 'SIGKILL');
  }
  await until('it has begun', () => fs.existsSync(path.join(service.dir, 'killed-pid')));
  assert.equal(await service.outputOf('print on', { context_id: id }), 'on\n');
  await service.request('DELETE', `/contexts/${id}`);
});

test('runs that wait go on with the new kernel', async () => {
  const running = await service.open('print 1\nsleep');
  await running.has('stdout');
  const waiting = await service.open('print 2\npid');
  const pid = service.kernelPids();
  for (const kernel of pid) process.kill(kernel, 'SIGKILL');
  assert.deepEqual((await running.lines()).at(-2), RESTARTED);
  assert.equal((await waiting.lines())[1].text, '2\n');
});

test('a restart ends the run with two errors', async () => {
  const { id } = await service.createContext();
  const running = await service.open('print 1\nsleep', { context_id: id });
  await running.has('stdout');
  const answers = await Promise.all([post(`/contexts/${id}/restart`), post(`/contexts/${id}/restart`)]);
  assert.deepEqual(answers.map(({ status, text }) => [status, text]), [[200, 'null'], [200, 'null']]);
  assert.deepEqual((await running.lines()).slice(2), LOST);
  const { lines } = await service.execute('print 2', { context_id: id });
  assert.deepEqual([lines[0].execution_count, lines[1].text], [1, '2\n']);
  await service.request('DELETE', `/contexts/${id}`);
});

test('the removal of a busy context ends its runs with two errors', async () => {
  const { id } = await service.createContext();
  const running = await service.open('print 1\ndeaf', { context_id: id });
  await running.has('stdout');
  const waiting = await service.open('print 2', { context_id: id });
  assert.equal((await service.request('DELETE', `/contexts/${id}`)).text, 'null');
  assert.deepEqual((await running.lines()).slice(2), LOST);
  assert.deepEqual(await waiting.lines(), LOST);
});

test('what a kernel started in its group ends with it', async () => {
  const { id } = await service.createContext();
  const pid = Number(await service.outputOf('child', { context_id: id }));
  assert.ok(isAlive(pid));
  await service.request('DELETE', `/contexts/${id}`);
  await until('its child is gone', () => !isAlive(pid));
});

test('a kernel that does not answer is given up', async () => {
  for (const language of ['hanging', 'mute']) {
    const answer = await post('/contexts', { language });
    assert.deepEqual([answer.status, answer.text], [500, 'Failed to create context: the kernel did not answer within 5 s']);
  }
});

test('a kernel that starts while the sandbox is paused for longer than it may take is not given up', async () => {
  const gate = `${service.dir}/gate`;
  service.addKernel('late', { language: 'late', argv: ['/bin/sh', '-c', `until test -e ${gate}; do sleep 0.01; done; exec ${fakeKernel} "$1"`, 'sh', '{connection_file}'] });
  const before = service.kernelPids();
  const made = service.createContext({ language: 'late' });
  const [kernel] = await until('its kernel starts', () => { const pids = service.kernelPids().filter((pid) => !before.includes(pid)); return pids.length && pids; });
  const pids = [service.serving, kernel];
  for (const pid of pids) process.kill(pid, 'SIGSTOP');
  const end = Date.now() + 10000; // twice the time that a kernel has
  await until('the pause is over', () => Date.now() > end);
  for (const pid of pids) process.kill(pid, 'SIGCONT');
  fs.writeFileSync(gate, '');
  const { id } = await made;
  assert.equal(await service.outputOf('print on', { context_id: id }), 'on\n');
  await service.request('DELETE', `/contexts/${id}`);
});

test('a context whose kernel does not start any more says so, and recovers', async () => {
  service.addKernel('fragile', { language: 'fragile', argv: ['/bin/sh', '-c', `test -e ${service.dir}/off && exit 9; exec ${fakeKernel} "$1"`, 'sh', '{connection_file}'] });
  const { id } = await service.createContext({ language: 'fragile' });
  fs.writeFileSync(`${service.dir}/off`, '');
  const answer = await post(`/contexts/${id}/restart`);
  assert.deepEqual([answer.status, answer.text], [500, `Failed to restart context ${id}`]);
  const { lines } = await service.execute('print x', { context_id: id });
  assert.deepEqual(lines.map((line) => line.value ?? line.type), ['Failed to send execution request',
    'Connection to the execution was closed before the execution was finished', 'end_of_execution']);
  assert.ok((await service.contexts()).some((context) => context.id === id));
  fs.unlinkSync(`${service.dir}/off`);
  assert.equal(await service.outputOf('print back', { context_id: id }), 'back\n');
  await service.request('DELETE', `/contexts/${id}`);
});

test('a kernel that is stopped, and then goes on, loses nothing', async () => {
  const pid = Number(await service.outputOf('pid'));
  process.kill(pid, 'SIGSTOP');
  const stream = await service.open('print through');
  process.kill(pid, 'SIGCONT');
  assert.equal((await stream.lines())[1].text, 'through\n');
});

test('no zombies are left', async () => {
  await until('all are reaped', () => childrenOf(service.serving).every(isAlive));
});
