// Clients that wait, leave or read slowly; one execution at a time.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { parseLines, Service, until } from './harness.mjs';

let service, census;
before(async () => {
  service = await Service.start({ kernels: ['python3', 'bymessage', 'hanging'] });
  await service.execute('', { language: 'bymessage' });
  await service.execute('');
  census = service.census();
});
after(async () => {
  await service.isAsBefore(census);
  await service.stop();
});

const gateName = (() => { let n = 0; return () => path.join(service.dir, `gate-${n++}`); })();

test('the head of the answer comes at once, also while the context is busy; runs come in order', async () => {
  const gate = gateName();
  const first = await service.open(`print 1\nbusy ${gate}\nprint 2`);
  await first.has('stdout');
  const others = [];
  for (const n of [3, 4, 5]) {
    others.push(await service.open(`print ${n}`)); // resolves with the head
    assert.equal(others.at(-1).status, 200);
    assert.equal(others.at(-1).text, '');
  }
  fs.writeFileSync(gate, '');
  const counts = [];
  for (const stream of [first, ...others]) counts.push((await stream.lines())[0].execution_count);
  assert.deepEqual(counts, [0, 1, 2, 3].map((n) => counts[0] + n));
});

test('a keepalive comes while nothing else does, also to those who wait', async () => {
  const gate = gateName();
  const running = await service.open(`busy ${gate}`);
  await running.has('number_of_executions');
  const waiting = await service.open('print late');
  await Promise.all([running.has('keepalive'), waiting.has('keepalive')]);
  fs.writeFileSync(gate, '');
  assert.equal((await waiting.lines())[1].text, 'late\n');
  assert.equal((await running.lines()).at(-1).type, 'end_of_execution');
});

test('a client that leaves while it waits is dropped, and its code never runs', async () => {
  const gate = gateName(), never = path.join(service.dir, 'never');
  const running = await service.open(`print 1\nbusy ${gate}\nprint 2`);
  await running.has('stdout');
  const waiting = await service.open('print no\nbusy /');
  waiting.leave();
  const last = await service.open('print last');
  fs.writeFileSync(gate, '');
  const before = (await running.lines())[0].execution_count;
  assert.equal((await last.lines())[0].execution_count, before + 1);
  assert.ok(!fs.existsSync(never));
});

test('code that waits has a total limit, and the service goes on', async () => {
  const gate = gateName();
  const running = await service.open(`print 1\nbusy ${gate}`);
  await running.has('stdout');
  const waiting = await service.open(`# ${'x'.repeat(60 << 20)}`); // resolves with the head
  const unfinished = Array.from({ length: 3 }, () => { // bodies whose last bytes do not come
    const socket = net.connect(service.port, '127.0.0.1');
    socket.on('error', () => {});
    socket.write(`POST /execute HTTP/1.1\r\nHost: x\r\nContent-Length: ${64 << 20}\r\n\r\n`);
    socket.write(Buffer.alloc((64 << 20) - 1024, 0x20));
    return socket;
  });
  const code = `# ${'x'.repeat(5 << 20)}`;
  const streams = [];
  const refused = await until('one over the limit is refused', async () => {
    const stream = await service.open(code);
    streams.push(stream);
    return stream.status === 503 && stream;
  });
  await until('the explanation', () => /Too much code waits already: 256 MiB for all contexts/.test(refused.text));
  assert.equal(await service.outputOf('print small', { language: 'bymessage' }), 'small\n');
  for (const socket of unfinished) socket.destroy();
  for (const stream of [waiting, ...streams]) stream.leave(); // their code never runs
  await until('there is room', async () => {
    const stream = await service.open(code);
    stream.leave();
    return stream.status === 200;
  });
  fs.writeFileSync(gate, '');
  await running.lines();
});

for (const language of ['python', 'bymessage'])
  test(`a client that leaves interrupts its run, and no other (${language})`, async () => {
    const pid = await service.outputOf('pid', { language });
    const running = await service.open('print 1\nsleep\nprint 2', { language });
    await running.has('stdout');
    const next = await service.open('print next\npid', { language });
    running.leave();
    const lines = await next.lines();
    assert.deepEqual(lines.map((line) => line.text ?? line.type), ['number_of_executions', 'next\n', pid, 'end_of_execution']);
  });

test('a kernel that ignores interrupts is started again', async () => {
  const pid = await service.outputOf('pid');
  const running = await service.open('print 1\ndeaf');
  await running.has('stdout');
  running.leave();
  const { lines } = await service.execute('pid');
  assert.deepEqual(lines.map((line) => line.type), ['number_of_executions', 'stdout', 'end_of_execution']);
  assert.notEqual(lines[1].text, pid);
});

test('a client that only stops sending counts as gone', async () => {
  const body = JSON.stringify({ code: 'print 1\nsleep' });
  const socket = net.connect(service.port, '127.0.0.1');
  socket.write(`POST /execute HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  await until('it runs', () => new Promise((resolve) => socket.once('data', (bytes) => resolve(String(bytes).length))));
  socket.end();
  socket.on('error', () => {});
  assert.equal(await service.outputOf('print free'), 'free\n');
  socket.destroy();
});

test('a client that leaves in the middle of its request leaves nothing behind', async () => {
  const socket = net.connect(service.port, '127.0.0.1');
  await new Promise((resolve) => socket.write('POST /execute HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"code":', resolve));
  socket.destroy();
  assert.equal(await service.outputOf('print on'), 'on\n');
});

test('a client that leaves while its context is made', async () => {
  const made = (await service.contexts()).length;
  const controller = new AbortController();
  const asked = service.request('POST', '/contexts', { body: { language: 'hanging' }, signal: controller.signal }).catch(() => 'left');
  await until('its kernel starts', () => service.kernelPids().length > census.kernels);
  controller.abort();
  assert.equal(await asked, 'left');
  await until('it is gone', () => service.kernelPids().length === census.kernels);
  assert.equal((await service.contexts()).length, made);
});

test('a client that leaves in the middle of much output', async () => {
  const running = await service.open('flood 100000 10000');
  await running.has('stdout');
  running.leave();
  assert.equal(await service.outputOf('print free'), 'free\n');
});

test('a gigabyte is printed to a slow client with little memory', async () => {
  const bytes = 1 << 30, body = JSON.stringify({ code: `flood 16384 65536\nprint done` });
  const socket = net.connect({ port: service.port, host: '127.0.0.1' });
  socket.write(`POST /execute HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  let received = 0, most = 0, tail = '';
  socket.on('data', (piece) => {
    received += piece.length;
    tail = (tail + piece.subarray(-200).toString('latin1')).slice(-200);
    if ((received >> 20) % 64 === 0) {
      most = Math.max(most, service.residentBytes());
      socket.pause();
      setTimeout(() => socket.resume(), 1);
    }
  });
  await new Promise((resolve) => socket.on('close', resolve));
  assert.ok(received > bytes, `${received} bytes`);
  assert.match(tail, /end_of_execution/);
  assert.ok(most < 64 << 20, `resident: ${most}`);
});

/** An answer on a connection that is not read before resume(): ended(fn) when it is over, with all that came. */
function unread(code) {
  const body = JSON.stringify({ code });
  const socket = net.connect({ port: service.port, host: '127.0.0.1' }).pause();
  const pieces = [];
  socket.write(`POST /execute HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  socket.on('data', (piece) => pieces.push(piece));
  socket.on('error', () => {});
  return { socket, ended: new Promise((resolve) => socket.on('close', () => resolve(Buffer.concat(pieces).toString('latin1')))) };
}

/** The body of a chunked answer. */
function bodyOf(text) {
  const pieces = [];
  for (let at = text.indexOf('\r\n\r\n') + 4; ;) {
    const end = text.indexOf('\r\n', at), size = parseInt(text.slice(at, end), 16);
    assert.ok(size >= 0, 'the answer is whole');
    if (size === 0) return pieces.join('');
    pieces.push(text.slice(end + 2, end + 2 + size));
    at = end + 2 + size + 2;
  }
}

test('one line of two hundred megabytes reaches a client that reads late', async () => {
  const bytes = 200 << 20;
  const late = unread(`flood 1 ${bytes}\nprint after`);
  await until('the line is there', () => service.residentBytes() > bytes);
  late.socket.resume();
  const came = parseLines(bodyOf(await late.ended));
  assert.deepEqual(came.map((line) => line.type), ['number_of_executions', 'stdout', 'stdout', 'end_of_execution']);
  assert.equal(came[1].text, 'x'.repeat(bytes));
  assert.equal(came[2].text, 'after\n');
  await until('the memory is given back', () => service.residentBytes() < 64 << 20);
});

test('a client that leaves in the middle of one line leaves nothing behind', async () => {
  for (const whole of [true, false]) { // its kernel is done, or has more to say
    const late = unread(`flood ${whole ? 1 : 100000} ${20 << 20}`);
    await until('the line is there', () => service.residentBytes() > 20 << 20);
    late.socket.destroy();
    assert.equal(await service.outputOf('print on'), 'on\n');
  }
  await until('the memory is given back', () => service.residentBytes() < 64 << 20);
});

test('a client that does not read holds the kernel up, not the service', async () => {
  const socket = net.connect({ port: service.port, host: '127.0.0.1' });
  const body = JSON.stringify({ code: 'flood 100000 65536' });
  socket.pause();
  socket.write(`POST /execute HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  await until('it runs', () => service.residentBytes());
  assert.equal(await service.outputOf('print other', { language: 'bymessage' }), 'other\n');
  assert.ok(service.residentBytes() < 64 << 20);
  socket.destroy();
  assert.equal(await service.outputOf('print free'), 'free\n');
});
