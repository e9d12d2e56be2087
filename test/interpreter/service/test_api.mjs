// Every row of the HTTP API: answers, errors and their texts.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { Service } from './harness.mjs';

let service, census;
before(async () => {
  service = await Service.start();
  census = service.census();
});
after(async () => {
  await service.isAsBefore(census);
  await service.stop();
});

const post = (target, body) => service.request('POST', target, { body });

test('health is OK, as JSON', async () => {
  const answer = await service.request('GET', '/health?source=test');
  assert.deepEqual([answer.status, answer.text, answer.headers['content-type']], [200, '"OK"', 'application/json']);
});

test('the default contexts of python and javascript are there from the start', async () => {
  const contexts = await service.contexts();
  assert.deepEqual(contexts.map(({ language, cwd }) => [language, cwd]),
    [['python', service.home], ['javascript', service.home]]);
});

test('an execution streams lines without a content type', async () => {
  const { headers, lines } = await service.execute('result 7');
  assert.equal(headers['content-type'], undefined);
  assert.equal(headers['transfer-encoding'], 'chunked');
  assert.deepEqual(lines.map((line) => line.type), ['number_of_executions', 'result', 'end_of_execution']);
});

test('null, empty strings and unknown fields count as absent', async () => {
  const { lines } = await service.execute('print x', { context_id: null, language: '', env_vars: null, later: { a: 1 } });
  assert.equal(lines[1].text, 'x\n');
  assert.equal((await service.execute('', { context_id: '' })).lines.at(-1).type, 'end_of_execution');
});

test('what later clients add is ignored: parameters of every URL, fields of every body', async () => {
  const answer = await post('/execute?source=npm&x=%zz', { code: 'print x', later: [1] });
  assert.deepEqual([answer.status, answer.text.includes('"text":"x\\n"')], [200, true]);
  const made = await post('/contexts?source=npm', { language: 'python', later: { a: 1 }, env_vars: 5 });
  assert.equal(made.status, 200, made.text);
  const { id, ...rest } = JSON.parse(made.text);
  assert.deepEqual(rest, { language: 'python', cwd: service.home });
  assert.equal((await service.request('GET', '/contexts?source=npm')).status, 200);
  assert.equal((await service.request('GET', '/health?source=npm')).text, '"OK"');
  for (const [method, target] of [['POST', `/contexts/${id}/restart?source=npm`], ['DELETE', `/contexts/${id}?source=npm`]]) {
    const { status, text } = await service.request(method, target);
    assert.deepEqual([status, text], [200, 'null'], target);
  }
});

test('context and language together are refused', async () => {
  const answer = await service.execute('x', { context_id: 'a', language: 'python' });
  assert.deepEqual([answer.status, answer.text], [400, 'Only one of context_id or language can be provided']);
  assert.match(answer.headers['content-type'], /^text\/plain/);
});

test('an unknown context is not found', async () => {
  const wanted = [404, 'Context nope not found'];
  for (const answer of [await service.execute('x', { context_id: 'nope' }),
    await service.request('DELETE', '/contexts/nope'), await post('/contexts/nope/restart')])
    assert.deepEqual([answer.status, answer.text], wanted);
});

test('an unknown path and a wrong method are told as JSON', async () => {
  const unknown = [404, '{"detail":"Not Found"}'], wrong = [405, '{"detail":"Method Not Allowed"}'];
  for (const [method, target, expected] of [['GET', '/', unknown], ['GET', '/nothing', unknown], ['GET', '/contexts/a/b', unknown],
    ['GET', '/health/', unknown], ['POST', '/health', wrong], ['GET', '/execute', wrong], ['PUT', '/contexts', wrong], ['GET', '/contexts/a', wrong],
    ['DELETE', '/contexts/a/restart', wrong]]) {
    const answer = await service.request(method, target);
    assert.deepEqual([answer.status, answer.text], expected, `${method} ${target}`);
  }
});

test('a wrong body is told field by field', async () => {
  const rows = [
    ['/execute', '{}', [{ type: 'missing', loc: ['body', 'code'], msg: 'Field required', input: {} }]],
    ['/execute', '', [{ type: 'missing', loc: ['body'], msg: 'Field required', input: null }]],
    ['/execute', '[1]', [{ type: 'model_attributes_type', loc: ['body'],
      msg: 'Input should be a valid dictionary or object to extract fields from', input: [1] }]],
    ['/execute', '{"code":5,"language":[],"context_id":{}}', [
      { type: 'string_type', loc: ['body', 'code'], msg: 'Input should be a valid string', input: 5 },
      { type: 'string_type', loc: ['body', 'context_id'], msg: 'Input should be a valid string', input: {} },
      { type: 'string_type', loc: ['body', 'language'], msg: 'Input should be a valid string', input: [] }]],
    ['/execute', '{"code":null}', [{ type: 'string_type', loc: ['body', 'code'], msg: 'Input should be a valid string', input: null }]],
    ['/execute', '{"code":"","env_vars":[]}', [
      { type: 'dict_type', loc: ['body', 'env_vars'], msg: 'Input should be a valid dictionary', input: [] }]],
    ['/execute', '{"code":"","env_vars":{"A":1}}', [
      { type: 'string_type', loc: ['body', 'env_vars', 'A'], msg: 'Input should be a valid string', input: 1 }]],
    ['/execute', '{"code":"","env_vars":{"A":"x\\u0000y"}}', [{ type: 'value_error', loc: ['body', 'env_vars', 'A'],
      msg: "Value error, a variable needs a name without '=', and a value without NUL", input: 'x\0y', ctx: { error: {} } }]],
    ['/execute', '{"code":"","env_vars":{"A=B":"x"}}', [{ type: 'value_error', loc: ['body', 'env_vars', 'A=B'],
      msg: "Value error, a variable needs a name without '=', and a value without NUL", input: 'x', ctx: { error: {} } }]],
    ['/contexts', '{"cwd":1}', [{ type: 'string_type', loc: ['body', 'cwd'], msg: 'Input should be a valid string', input: 1 }]],
  ];
  for (const [target, body, detail] of rows) {
    const answer = await post(target, body);
    assert.deepEqual([answer.status, JSON.parse(answer.text)], [422, { detail }], body);
  }
  for (const body of ['{', 'code', Buffer.from('{"code":"\xff"}', 'latin1')]) {
    const answer = await post('/execute', body);
    const [fault] = JSON.parse(answer.text).detail;
    assert.deepEqual([answer.status, fault.type, fault.msg, fault.loc[0]], [422, 'json_invalid', 'JSON decode error', 'body']);
  }
});

test('browsers of other origins are allowed', async () => {
  const plain = await service.request('GET', '/health', { headers: { Origin: 'https://a.example' } });
  assert.equal(plain.headers['access-control-allow-origin'], '*');
  const preflight = await service.request('OPTIONS', '/execute', { headers: { Origin: 'https://a.example',
    'Access-Control-Request-Method': 'POST', 'Access-Control-Request-Headers': 'x-a' } });
  assert.equal(preflight.status, 200);
  assert.match(preflight.headers['access-control-allow-methods'], /POST/);
  assert.equal(preflight.headers['access-control-allow-headers'], 'x-a');
  const stream = await service.request('POST', '/execute', { body: { code: '' }, headers: { Origin: 'https://a.example' } });
  assert.equal(stream.headers['access-control-allow-origin'], '*');
});

test('a context is created, listed last, used, restarted and removed', async () => {
  const made = await service.createContext({ language: ' PYTHON ', cwd: '/' });
  assert.deepEqual(Object.keys(made), ['id', 'language', 'cwd']);
  assert.deepEqual([made.language, made.cwd], ['python', '/']);
  assert.deepEqual((await service.contexts()).at(-1), made);
  assert.equal(await service.outputOf('cwd', { context_id: made.id }), '/\n');
  const pid = await service.outputOf('pid', { context_id: made.id });
  const restarted = await post(`/contexts/${made.id}/restart`);
  assert.deepEqual([restarted.status, restarted.text], [200, 'null']);
  assert.notEqual(await service.outputOf('pid', { context_id: made.id }), pid);
  const { lines } = await service.execute('cwd', { context_id: made.id });
  assert.deepEqual([lines[0].execution_count, lines[1].text], [2, '/\n']);
  const removed = await service.request('DELETE', `/contexts/${made.id}`);
  assert.deepEqual([removed.status, removed.text], [200, 'null']);
  assert.equal((await service.contexts()).length, 2);
  assert.equal((await service.execute('', { context_id: made.id })).status, 404);
});

test('languages have aliases, and typescript a context of its own', async () => {
  const pids = {};
  for (const language of ['js', 'JavaScript', 'ts', 'typescript', 'python', undefined])
    pids[language] = await service.outputOf('pid', { language });
  assert.equal(pids.js, pids.JavaScript);
  assert.equal(pids.ts, pids.typescript);
  assert.notEqual(pids.js, pids.ts);
  assert.equal(pids.python, pids.undefined);
  const typescript = (await service.contexts()).find((context) => context.language === 'typescript');
  await service.request('DELETE', `/contexts/${typescript.id}`);
});

test('a kernel is found by the language that it names', async () => {
  assert.equal(await service.outputOf('print here', { language: 'r' }), 'here\n');
  const made = (await service.contexts()).at(-1);
  assert.equal(made.language, 'r');
  await service.request('DELETE', `/contexts/${made.id}`);
});

test('two first executions in a language make one context', async () => {
  const [one, other] = await Promise.all([service.outputOf('pid', { language: 'bash' }), service.outputOf('pid', { language: 'bash' })]);
  assert.equal(one, other);
  const made = (await service.contexts()).filter((context) => context.language === 'bash');
  assert.equal(made.length, 1);
  await service.request('DELETE', `/contexts/${made[0].id}`);
});

test('a default context that was removed is made again', async () => {
  const [python] = await service.contexts();
  await service.request('DELETE', `/contexts/${python.id}`);
  assert.equal(await service.outputOf('print again'), 'again\n');
  assert.equal((await service.contexts()).at(-1).language, 'python');
});

test('a language without a kernel, and kernels that do not start, are told', async () => {
  const rows = [['nothing', /^Failed to create context: No such kernel: nothing$/],
    ['../python3', /^Failed to create context: No such kernel: \.\.\/python3$/],
    ['dying', /^Failed to create context: the kernel exited with status 3: a module is missing$/],
    ['missing', /^Failed to create context: start '\/nonexistent\/kernel': No such file or directory$/],
    ['x'.repeat(300), /^Failed to create context: the name of the language is too long$/]];
  service.addKernel('broken', '{"argv": 5}');
  rows.push(['broken', /^Failed to create context: .*kernel\.json: "argv" must be/]);
  for (const [language, text] of rows)
    for (const answer of [await post('/contexts', { language }), await service.execute('', { language })]) {
      assert.equal(answer.status, 500);
      assert.match(answer.text, text);
      assert.match(answer.headers['content-type'], /^text\/plain/);
    }
  assert.equal((await service.contexts()).length, 2);
});

test('a kernel that is installed later is found', async () => {
  assert.equal((await service.execute('', { language: 'later' })).status, 500);
  service.addKernel('later', { language: 'later' });
  assert.equal(await service.outputOf('print now', { language: 'later' }), 'now\n');
  await service.request('DELETE', `/contexts/${(await service.contexts()).at(-1).id}`);
});

test('a directory that does not exist is an error, but not in python and java', async () => {
  const missing = path.join(service.dir, 'missing');
  for (const language of ['javascript', 'r', 'bash', 'strange']) {
    const answer = await post('/contexts', { language, cwd: missing });
    assert.deepEqual([answer.status, answer.text], [500, 'Failed to set working directory']);
  }
  assert.equal((await service.contexts()).length, 2);
  for (const language of ['python', 'java']) {
    const made = await service.createContext({ language, cwd: missing });
    assert.equal(made.cwd, missing);
    assert.equal(await service.outputOf('cwd', { context_id: made.id }), `${service.home}\n`, language);
    await service.request('DELETE', `/contexts/${made.id}`);
  }
});

test('a relative directory is below the home', async () => {
  fs.mkdirSync(path.join(service.home, 'below'));
  const made = await service.createContext({ cwd: 'below' });
  assert.equal(made.cwd, 'below');
  assert.equal(await service.outputOf('cwd', { context_id: made.id }), `${service.home}/below\n`);
  await service.request('DELETE', `/contexts/${made.id}`);
});

test('fifty contexts at once run side by side', async () => {
  const made = await Promise.all(Array.from({ length: 50 }, () => service.createContext()));
  const gate = path.join(service.dir, 'gate');
  const streams = await Promise.all(made.map(({ id }, i) => service.open(`print began\nbusy ${gate}\nprint ${i}`, { context_id: id })));
  await Promise.all(streams.map((stream) => stream.has('stdout'))); // all of them run at the same time
  fs.writeFileSync(gate, '');
  const all = await Promise.all(streams.map((stream) => stream.lines()));
  all.forEach((lines, i) => assert.equal(lines[2].text, `${i}\n`));
  const removed = await Promise.all(made.map(({ id }) => service.request('DELETE', `/contexts/${id}`)));
  assert.ok(removed.every(({ status }) => status === 200));
});
