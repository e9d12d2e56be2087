// What kernels send, and which lines come of it.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import net from 'node:net';
import { after, before, test } from 'node:test';
import { Service } from './harness.mjs';

let service, census;
before(async () => {
  service = await Service.start({ kernels: ['python3', 'prompt'] });
  await service.execute('', { language: 'prompt' });
  await service.execute('');
  census = service.census();
});
after(async () => {
  await service.isAsBefore(census);
  await service.stop();
});

const linesOf = async (code) => (await service.execute(code)).lines;
const resultOf = async (data) => (await linesOf(`raw display_data {"data":${data},"metadata":{}}`))[1];

test('counts, output, results and the end come in order', async () => {
  const lines = await linesOf("print hello\nresult 'text'\nraw display_data {\"data\":{\"text/plain\":\"d\"}}");
  assert.equal(typeof lines[0].execution_count, 'number');
  assert.deepEqual(Object.keys(lines[1]), ['type', 'text', 'timestamp']);
  assert.equal(lines[1].text, 'hello\n');
  assert.match(lines[1].timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00$/);
  assert.deepEqual(lines[2], { type: 'result', text: 'text', extra: {}, is_main_result: true });
  assert.deepEqual(lines[3], { type: 'result', text: 'd', extra: {}, is_main_result: false });
  assert.deepEqual(lines.at(-1), { type: 'end_of_execution' });
  assert.equal((await linesOf(''))[0].execution_count, lines[0].execution_count + 1);
});

test('each MIME type has its field, others are in extra', async () => {
  const data = { 'text/plain': '"q"', 'text/html': '<b>', 'text/markdown': '*', 'image/svg+xml': '<svg>', 'image/png': 'AA==',
    'image/jpeg': 'BB==', 'application/pdf': 'CC==', 'text/latex': '$', 'application/json': { a: [1] },
    'application/javascript': 'x()', 'e2b/data': { a: [1, 2] }, 'e2b/chart': { type: 'line', x_unit: null }, 'x/y': [1], 'text/x\u00e4': 'z' };
  assert.deepEqual(await resultOf(JSON.stringify(data)), { type: 'result', text: 'q', html: '<b>', markdown: '*', svg: '<svg>',
    png: 'AA==', jpeg: 'BB==', pdf: 'CC==', latex: '$', json: { a: [1] }, javascript: 'x()', data: { a: [1, 2] },
    chart: { type: 'line', x_unit: null }, extra: { 'x/y': [1], 'text/x\u00e4': 'z' }, is_main_result: false });
});

test('numbers stay as the kernel wrote them', async () => {
  const { text } = await service.execute('raw display_data {"data":{"e2b/chart":[1.0,0.1,1e300,123456789012345678901234567890,-0]}}');
  assert.ok(text.includes('"chart":[1.0,0.1,1e300,123456789012345678901234567890,-0]'), text);
});

test('NaN and Infinity are null', async () => {
  assert.deepEqual((await resultOf('{"application/json":[NaN,Infinity,-Infinity,1]}')).json, [null, null, null, 1]);
});

test('what is not UTF-8 is replaced, what is not ASCII is escaped', async () => {
  const lines = await linesOf('raw stream {"name":"stdout","text":"a\\xff\\xc3\\xa4\\xf0\\x9f\\x98\\x80\\xe2\\x80\\xa8\\xed\\xa0\\x80"}');
  assert.equal(lines[1].text, 'a\ufffd\u00e4\u{1f600}\u2028\ufffd\ufffd\ufffd');
  assert.equal((await linesOf('raw stream {"name":"stderr","text":"\\x1b[0m\\x0c"}'))[1].text, '\u001b[0m\f');
});

test('halves of surrogate pairs are replaced', async () => {
  const { lines } = await service.execute('raw stream {"name":"stdout","text":"\\ud83d\\ude00 \\ud83d x \\ude00"}');
  assert.equal(lines[1].text, '\u{1f600} \ufffd x \ufffd');
});

test('only one pair of quotes is cut, and only equal ones', async () => {
  for (const [plain, text] of [["'a'", 'a'], ['"a"', 'a'], ["''", ''], ['""', ''], ["'", "'"], ['"', '"'], ["''a''", "'a'"],
    ["'a\"", "'a\""], ["'a\\nb'", 'a\\nb'], ['"a\\"', 'a\\'], ['a', 'a'], ['', '']])
    assert.equal((await resultOf(JSON.stringify({ 'text/plain': plain }))).text, text, plain);
});

test('an error has a name, a value and a traceback without separators', async () => {
  assert.deepEqual((await linesOf('fail NameError'))[1],
    { type: 'error', name: 'NameError', value: 'why', traceback: 'line 1line 2' });
  assert.deepEqual((await linesOf('raw error {}'))[1], { type: 'error', name: '', value: '', traceback: '' });
});

test('an error that is only answered is told too, once', async () => {
  const lines = await linesOf('answer-only Odd');
  assert.deepEqual(lines.map((line) => line.type), ['number_of_executions', 'error', 'end_of_execution']);
  assert.equal(lines[1].name, 'Odd');
});

test('an execution that the kernel aborts is told', async () => {
  assert.deepEqual((await linesOf('abort'))[1], { type: 'error', name: 'ExecutionAborted', value: 'Execution was aborted', traceback: '' });
});

test('an execution that the kernel drops is sent again', async () => {
  await linesOf('drop 3\nfail Odd');
  assert.deepEqual((await linesOf('print "here"')).map((line) => line.type), ['number_of_executions', 'stdout', 'end_of_execution']);
});

test('an execution that is aborted though nothing failed before it is not sent again: it may have run', async () => {
  await linesOf('drop 2');
  assert.equal((await linesOf('print "once"')).filter((line) => line.name === 'ExecutionAborted').length, 1);
  assert.deepEqual((await linesOf('print "here"')).map((line) => line.type), ['number_of_executions', 'stdout', 'end_of_execution']);
});

test('a kernel that drops everything: the run says so, once', async () => {
  await linesOf('drop 21\nfail Odd');
  const lines = await linesOf('print "never"');
  assert.deepEqual(lines.filter((line) => line.type === 'error').map((line) => line.name), ['ExecutionAborted']);
  assert.equal(lines.at(-1).type, 'end_of_execution');
  assert.equal(await service.outputOf('print on'), 'on\n');
});

test('messages of other types, malformed ones and forged ones make no line', async () => {
  const lines = await linesOf(['raw update_display_data {"data":{"text/plain":"x"}}', 'raw clear_output {}', 'raw stream {"name":"stdout"}',
    'raw stream {"name":"other","text":"x"}', 'raw stream {"name":"stdout","text":""}', 'raw stream {"name":', 'raw display_data {}', 'raw comm_open {}', 'unsigned x', 'garbage', 'print y'].join('\n'));
  assert.deepEqual(lines.map((line) => line.type), ['number_of_executions', 'stdout', 'end_of_execution']);
  assert.equal(lines[1].text, 'y\n');
});

test('an answer that comes twice, or output that is too late, does not reach the next run', async () => {
  for (const language of ['python', 'prompt']) {
    const run = async (code) => (await service.execute(code, { language })).lines.map((line) => line.text ?? line.type);
    assert.equal((await run('twice\nlate ghost')).at(-1), 'end_of_execution');
    assert.deepEqual(await run('print next'), ['number_of_executions', 'next\n', 'end_of_execution']);
  }
});

test('output that comes shortly after idle belongs to the run, unless the kernel says that idle is its last word', async () => {
  assert.deepEqual((await linesOf('late straggler')).map((line) => line.text ?? line.type), ['number_of_executions', 'straggler\n', 'end_of_execution']);
});

test('variables of many megabytes are refused', async () => {
  const { status, text } = await service.execute('print x', { env_vars: { A: 'x'.repeat(5 << 20) } });
  assert.deepEqual([status, JSON.parse(text).detail[0].msg], [422, 'Value error, more than 4 MiB of variables']);
});

test('code that is too large as a message is refused with an error', async () => {
  const body = `{"code":"print on","x":"${'x'.repeat(10)}"}`;
  assert.equal((await service.request('POST', '/execute', { body })).status, 200);
  const lines = await linesOf(`# ${'\u00e4'.repeat(30 << 20)}`);
  assert.deepEqual(lines.map((line) => line.name ?? line.type), ['CodeTooLarge', 'end_of_execution']);
  assert.equal(await service.outputOf('print on'), 'on\n');
});

test('an answer or an idle that never comes does not hang the context', async () => {
  assert.equal((await linesOf('print a\nno-answer')).at(-1).type, 'end_of_execution');
  assert.equal((await linesOf('print b\nno-idle')).at(-1).type, 'end_of_execution');
  assert.equal(await service.outputOf('print c'), 'c\n');
});

test('code of ten megabytes arrives', async () => {
  const code = `size\n# ${'\u00e4'.repeat(5 << 20)}`;
  assert.equal(await service.outputOf(code), `${Buffer.byteLength(code)}\n`);
});

test('a body over the limit is refused, at once if its length says so', async () => {
  const head = 'POST /execute HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000000\r\n\r\n';
  const socket = net.connect(service.port, '127.0.0.1', () => socket.write(head));
  const [answer] = await once(socket, 'data');
  assert.match(String(answer), /^HTTP\/1\.1 413 /);
  socket.destroy();
  const whole = await service.request('POST', '/execute', { body: `{"code":"${'x'.repeat(65 << 20)}"}` }).catch((e) => e);
  assert.ok(whole.status === 413 || whole.code, String(whole.status));
});

test('a body without a length is read a little over the limit, for its answer, and no further', async () => {
  const send = async (megabytes) => {
    const piece = Buffer.concat([Buffer.from('100000\r\n'), Buffer.alloc(1 << 20, 'x'), Buffer.from('\r\n')]);
    const socket = net.connect(service.port, '127.0.0.1');
    const closed = once(socket, 'close').catch(() => null);
    let text = '';
    socket.on('error', () => {}).on('data', (bytes) => { text += bytes; });
    socket.write('POST /execute HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n');
    let sent = 0;
    while (sent < megabytes && !socket.destroyed) {
      if (!socket.write(piece)) await Promise.race([once(socket, 'drain').catch(() => null), closed]);
      sent++;
    }
    if (!socket.destroyed) socket.write('0\r\n\r\n');
    await closed;
    return { text, sent };
  };
  assert.match((await send(66)).text, /^HTTP\/1\.1 413 /);
  const endless = await send(1000);
  assert.ok(endless.sent < 200 && endless.text === '', JSON.stringify(endless));
});

test('a picture of several megabytes is one line', async () => {
  const png = 'A'.repeat(6 << 20);
  assert.equal((await resultOf(JSON.stringify({ 'image/png': png }))).png.length, png.length);
});

test('a message that is too large is dropped with an error', async () => {
  const lines = await linesOf(`flood 1 ${(256 << 20) + 1}\nprint after`);
  assert.deepEqual(lines.map((line) => line.type), ['number_of_executions', 'error', 'stdout', 'end_of_execution']);
  assert.equal(lines[1].name, 'OutputTooLarge');
});

test('a message that is far too large is not read: an error, and the next outputs arrive', async () => {
  const small = await Service.start({ args: ['--output-max', '1000000'] });
  try {
    const { lines } = await small.execute(`print before\nflood 1 3000000`);
    assert.deepEqual(lines.map((line) => line.name ?? line.type), ['number_of_executions', 'stdout', 'OutputTooLarge', 'end_of_execution']);
    assert.equal(lines[2].value, 'An output was dropped: it is larger than 1000000 bytes');
    assert.equal(await small.outputOf('print after'), 'after\n');
    assert.deepEqual((await small.execute(`flood 1 1500000\nprint on`)).lines.map((line) => line.name ?? line.type),
      ['number_of_executions', 'OutputTooLarge', 'stdout', 'end_of_execution']);
    assert.equal((await small.outputOf('flood 1 900000')).length, 900000);
    await small.execute(`flood 1 3000000`);
    assert.equal(await small.outputOf('print again\nflood 20 10'), `again\n${'x'.repeat(200)}`); // each once
  } finally {
    await small.stop();
  }
});

test('of a result with a deeply nested format, only that format is dropped', async () => {
  const deep = `${'['.repeat(2000)}${']'.repeat(2000)}`;
  const lines = await linesOf(`raw display_data {"data":{"text/plain":"kept","application/json":${deep},"x/deep":{"a":${deep}},"x/flat":1}}\nprint on`);
  assert.deepEqual(lines.slice(1), [{ type: 'result', text: 'kept', extra: { 'x/flat': 1 }, is_main_result: false },
    { ...lines[2], text: 'on\n' }, { type: 'end_of_execution' }]);
});
