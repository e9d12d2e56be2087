// Variables of the sandbox and of a run: which statements the kernel is given, and when.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { fakeKernel, Service, until } from './harness.mjs';

let service, envd, asked, reply;
before(async () => {
  envd = http.createServer((rq, answer) => {
    asked.push([rq.method, rq.url, rq.headers['x-access-token']]);
    if (reply.isHeld) return;
    answer.writeHead(reply.status, { 'Content-Type': 'application/json' });
    answer.end(reply.body);
  });
  await new Promise((resolve) => envd.listen(0, '127.0.0.1', resolve));
  asked = [];
  reply = { status: 200, body: '{}' };
  service = await Service.start({ envd: `http://localhost:${envd.address().port}` });
});
after(async () => {
  await service.stop();
  envd.close();
});
beforeEach(() => {
  asked = [];
  reply = { status: 200, body: '{}' };
});

/** The silent executions that the kernel of a context saw so far. */
const silentOf = async (context_id) => JSON.parse(`[${await service.outputOf('silent', { context_id })}]`);
const remove = (id) => service.request('DELETE', `/contexts/${id}`);

test('variables of the sandbox are asked for once, with the token of the caller, and set', async () => {
  reply.body = '{"GREETING":"it\'s \\"me\\"\\n","NUL":"a\\u0000b","NUMBER":5}';
  const { id } = await service.createContext();
  await service.execute('', { context_id: id }, { 'X-Access-Token': 'secret' });
  assert.deepEqual(await silentOf(id), ['__import__(\'os\').environ.__setitem__("GREETING", "it\'s \\"me\\"\\n")\n']);
  assert.deepEqual(asked, [['GET', '/envs', 'secret']]);
  await service.request('POST', `/contexts/${id}/restart`);
  assert.equal((await silentOf(id)).length, 1);
  assert.equal(asked.length, 2);
  await remove(id);
});

test('answers other than 200 set nothing, and are asked for again', async () => {
  const { id } = await service.createContext();
  for (const [status, body] of [[401, '{"code":401,"message":"no"}'], [200, '[1]'], [200, '{'], [500, '']]) {
    reply = { status, body };
    assert.deepEqual(await silentOf(id), []);
  }
  reply = { status: 200, body: '{"LATE":"1"}' };
  assert.equal((await silentOf(id)).length, 1);
  assert.equal(asked.length, 5);
  await remove(id);
});

test('variables of a run are set before it and undone after it', async () => {
  reply.body = '{"KEPT":"sandbox"}';
  const { id } = await service.createContext();
  await service.execute('', { context_id: id });
  await service.execute('print x', { context_id: id, env_vars: { KEPT: 'run', NEW: '1', FROM_SERVICE: '2' } });
  assert.deepEqual((await silentOf(id)).slice(1), [
    '__import__(\'os\').environ.__setitem__("KEPT", "run")\n__import__(\'os\').environ.__setitem__("NEW", "1")\n' +
      '__import__(\'os\').environ.__setitem__("FROM_SERVICE", "2")\n',
    '__import__(\'os\').environ.__setitem__("KEPT", "sandbox")\n__import__(\'os\').environ.pop("NEW", None)\n' +
      '__import__(\'os\').environ.__setitem__("FROM_SERVICE", "inherited")\n']);
  await remove(id);
});

test('variables are undone also when the client left', async () => {
  const { id } = await service.createContext();
  await service.execute('', { context_id: id });
  const running = await service.open('print 1\nsleep', { context_id: id, env_vars: { A: '1' } });
  await running.has('stdout');
  running.leave();
  const silent = await silentOf(id);
  assert.deepEqual(silent, ['__import__(\'os\').environ.__setitem__("A", "1")\n', '', '__import__(\'os\').environ.pop("A", None)\n']);
  await remove(id);
});

test('each language has its statements', async () => {
  const value = 'q\'"\\\n$x\u00e4';
  const rows = {
    javascript: ['process.env["A"] = "q\'\\"\\\\\\n$x\\u00e4";\n', 'delete process.env["A"];\n'],
    r: ['base::do.call(base::Sys.setenv, base::structure(base::list("q\'\\"\\\\\\n$x\u00e4"), names = "A"))\n', 'base::Sys.unsetenv("A")\n'],
    java: ['{ System.setProperty("A", "q\'\\"\\\\\\n$x\u00e4"); }\n', '{ System.clearProperty("A"); }\n'],
    bash: ["export A=$'q\\'\"\\\\\\012$x\u00e4'\n", 'unset A\n'],
  };
  for (const [language, statements] of Object.entries(rows)) {
    const { id } = await service.createContext({ language });
    await service.execute('', { context_id: id, env_vars: { A: value } });
    // Output of a service is ASCII, so what comes back is exactly what was sent.
    assert.deepEqual(await silentOf(id), statements, language);
    await remove(id);
  }
});

test('a kernel of an unknown language gets no statements', async () => {
  const { id } = await service.createContext({ language: 'strange' });
  await service.execute('', { context_id: id, env_vars: { A: '1' } });
  assert.deepEqual(await silentOf(id), []);
  assert.deepEqual(asked, []);
  await remove(id);
});

test('kernels inherit the variables of the service, and those of their kernelspec', async () => {
  assert.equal(await service.outputOf('env FROM_SERVICE'), 'inherited\n');
  service.addKernel('special', { language: 'special', env: { FROM_SERVICE: 'spec' } });
  assert.equal(await service.outputOf('env FROM_SERVICE', { language: 'special' }), 'spec\n');
});

test('kernels inherit what sudo was started with: variables of the template, directories of its PATH', async () => {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'interpreter-sudo-'));
  const sudo = path.join(dir, 'sudo');
  fs.writeFileSync(sudo, `#!/bin/sh\nenv -i HOME=/root PATH=${process.env.PATH}:/opt/of-sudo FROM_SUDO=1 "$@"\nexit $?\n`, { mode: 0o755 });
  fs.mkdirSync(`${dir}/kernels/of_template`, { recursive: true });
  fs.writeFileSync(`${dir}/kernels/of_template/kernel.json`, JSON.stringify({ argv: [fakeKernel, '{connection_file}'], language: 'python', env: { SEEN: '<${OF_TEMPLATE}>' } }));
  const other = await Service.start({ via: sudo, kernels: ['python3'], env: { OF_TEMPLATE: 'a=b c', PATH: `/opt/of-template:${process.env.PATH}`, HOME: '/home/user', JUPYTER_PATH: dir } });
  try {
    const facts = ['OF_TEMPLATE', 'PATH', 'HOME', 'FROM_SUDO', 'SEEN'].map((name) => `env ${name}`).join('\n');
    assert.deepEqual((await other.outputOf(facts, { language: 'of_template' })).split('\n').slice(0, -1),
      ['a=b c', `/opt/of-template:${process.env.PATH}:/opt/of-sudo`, '/root', '1', '<a=b c>']);
  } finally {
    await other.stop();
    fs.rmSync(dir, { recursive: true });
  }
});

test('libraries that a template names are for kernels: the service itself never loads them', async () => {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'interpreter-sudo-'));
  const sudo = path.join(dir, 'sudo');
  fs.writeFileSync(sudo, '#!/bin/sh\nenv -i HOME=/root "$@"\nexit $?\n', { mode: 0o755 });
  for (const name of ['libzmq.so.5', 'libjansson.so.4']) fs.writeFileSync(path.join(dir, name), 'no library');
  const other = await Service.start({ via: sudo, kernels: ['bash'], env: { LD_LIBRARY_PATH: dir } });
  try {
    other.addKernel('plain', { language: 'plain', env: { SEEN: '${LD_LIBRARY_PATH}', LD_LIBRARY_PATH: '' } });
    const check = async () => {
      assert.equal(await other.outputOf('env SEEN\nenv SANDGLASS_ASIDE_LD_LIBRARY_PATH', { language: 'plain' }), `${dir}\nnone\n`);
      assert.equal((await other.execute('', { language: 'bash' })).status, 500, 'this kernel has them');
    };
    await check();
    for (let i = 0; i < 2; i++) {
      const serving = other.serving;
      process.kill(other.guardian, 'SIGKILL');
      other.guardian = serving;
      await until('it serves again', () => other.serving);
      await other.isHealthy();
      await check();
    }
  } finally {
    await other.stop();
    fs.rmSync(dir, { recursive: true });
  }
});

test('the program of a kernel is looked up in the PATH of its kernelspec', async () => {
  fs.mkdirSync(`${service.dir}/bin`);
  fs.symlinkSync(fakeKernel, `${service.dir}/bin/kernel-of-a-spec`);
  service.addKernel('elsewhere', { language: 'elsewhere', argv: ['kernel-of-a-spec', '{connection_file}'], env: { PATH: `${service.dir}/bin:\${PATH}` } });
  assert.equal(await service.outputOf('env PATH', { language: 'elsewhere' }), `${service.dir}/bin:${process.env.PATH}\n`);
});

test('random numbers are seeded again once when the sandbox is another one', async () => {
  const { id } = await service.createContext();
  assert.deepEqual(await silentOf(id), []);
  fs.writeFileSync(service.identity, 'sandbox-2');
  const silent = await silentOf(id);
  assert.equal(silent.length, 1);
  assert.match(silent[0], /random'\)\.seed\(\)/);
  assert.equal((await silentOf(id)).length, 1);
  const other = await service.createContext();
  assert.deepEqual(await silentOf(other.id), []);
  await remove(id);
  await remove(other.id);
});

test('a sandbox that became another one has variables of its own', async () => {
  reply.body = '{"STAGE":"first"}';
  const { id } = await service.createContext();
  assert.equal((await silentOf(id)).length, 1);
  fs.writeFileSync(service.identity, 'sandbox-3');
  reply.body = '{"STAGE":"copy"}';
  const silent = await silentOf(id);
  assert.equal(silent.length, 2);
  assert.match(silent[1], /"STAGE", "copy"/);
  assert.equal((await silentOf(id)).length, 2);
  assert.equal(asked.length, 2);
  await remove(id);
});

test('a copy does not keep variables that only the original had', async () => {
  reply.body = '{"SECRET":"original","FROM_SERVICE":"original","STAGE":"first"}';
  const { id } = await service.createContext();
  assert.equal((await silentOf(id)).length, 1);
  fs.writeFileSync(service.identity, 'sandbox-4');
  reply = { status: 500, body: '' }; // asked for again, and nothing is forgotten
  assert.equal((await silentOf(id)).length, 2);
  reply = { status: 200, body: '{"STAGE":"copy"}' };
  assert.deepEqual((await silentOf(id)).slice(2), [
    '__import__(\'os\').environ.__setitem__("STAGE", "copy")\n__import__(\'os\').environ.pop("SECRET", None)\n' +
      '__import__(\'os\').environ.__setitem__("FROM_SERVICE", "inherited")\n']);
  assert.equal((await silentOf(id)).length, 3);
  await remove(id);
});

test('a kernel that dies while envd is asked: the run goes on with the next kernel, which is given the variables', async () => {
  reply = { status: 200, body: '{"GREETING":"hello"}', isHeld: true };
  const others = service.kernelPids();
  const { id } = await service.createContext();
  const [pid] = service.kernelPids().filter((one) => !others.includes(one));
  const stream = await service.open('silent', { context_id: id });
  await until('it asks', () => asked.length === 1);
  reply.isHeld = false;
  process.kill(pid, 'SIGKILL');
  const lines = await stream.lines();
  assert.deepEqual(lines.map((line) => line.name ?? line.type), ['number_of_executions', 'stdout', 'end_of_execution']);
  assert.match(lines[1].text, /hello/);
  assert.equal(asked.length, 2);
  await remove(id);
});

test('an envd that does not answer holds nobody up for long', async () => {
  const { id } = await service.createContext();
  envd.removeAllListeners('request');
  envd.on('request', () => { asked.push('silence'); });
  assert.equal(await service.outputOf('print on', { context_id: id }), 'on\n');
  assert.deepEqual(asked, ['silence']);
  const stream = await service.open('print never', { context_id: id });
  await until('it asks', () => asked.length === 2);
  stream.leave();
  await remove(id);
});
