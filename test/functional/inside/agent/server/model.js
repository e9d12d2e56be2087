// A stand-in for the model's API: answers each prompt, word by word, with the prompt itself in capitals; KEY in it is the key of the
// request.  A prompt "use: TOOL {...}" makes it ask for that tool, and then answer with what the tool said.
const http = require('node:http')

const textOf = (content) => (typeof content === 'string' ? content : (content ?? []).filter((part) => part.type === 'text').map((part) => part.text).join(' '))

function promptOf({ messages }) {
  const text = textOf(messages.filter((m) => m.role === 'user').at(-1)?.content)
  return /say: (.*)/.exec(text)?.[1] ?? 'nothing to say'
}

/** {name, input}: the tool that the last prompt wants, as long as it was not used. */
function toolOf({ messages, tools }) {
  const found = /use: (\S+) (\{.*\})/.exec(textOf(messages.filter((m) => m.role === 'user').at(-1)?.content))
  return tools?.length && found ? { name: found[1], input: JSON.parse(found[2]) } : null
}

/** What a tool has said, when that is the last thing: a prompt behind it counts more. */
function toolAnswer({ messages }) {
  const last = messages.at(-1)?.content
  const part = Array.isArray(last) && !/(say|use): /.test(textOf(last)) ? last.find((p) => p.type === 'tool_result') : null
  return part ? `the tool said: ${textOf(part.content)}` : null
}

function answer(response, request, key) {
  const tool = toolAnswer(request) ? null : toolOf(request)
  const words = (toolAnswer(request) ?? promptOf(request).replace('KEY', key).toUpperCase()).split(' ')
  const message = { id: 'msg_1', type: 'message', role: 'assistant', model: request.model, content: [], stop_reason: null, stop_sequence: null, usage: { input_tokens: 1, output_tokens: 1 } }
  if (!request.stream) return response.setHeader('Content-Type', 'application/json').end(JSON.stringify({ ...message, content: [{ type: 'text', text: words.join(' ') }], stop_reason: 'end_turn' }))
  const send = (type, data) => response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`)
  response.setHeader('Content-Type', 'text/event-stream')
  send('message_start', { message })
  if (tool) {
    send('content_block_start', { index: 0, content_block: { type: 'tool_use', id: `toolu_${request.messages.length}`, name: tool.name, input: {} } })
    send('content_block_delta', { index: 0, delta: { type: 'input_json_delta', partial_json: JSON.stringify(tool.input) } })
  } else {
    send('content_block_start', { index: 0, content_block: { type: 'text', text: '' } })
    words.forEach((word, i) => send('content_block_delta', { index: 0, delta: { type: 'text_delta', text: (i ? ' ' : '') + word } }))
  }
  send('content_block_stop', { index: 0 })
  send('message_delta', { delta: { stop_reason: tool ? 'tool_use' : 'end_turn', stop_sequence: null }, usage: { output_tokens: words.length } })
  send('message_stop', {})
  response.end()
}

module.exports.start = (port) =>
  http.createServer(async (request, response) => {
    let body = ''
    for await (const piece of request) body += piece
    if (request.method === 'POST' && request.url.startsWith('/v1/messages') && !request.url.includes('count_tokens')) answer(response, JSON.parse(body), request.headers['x-api-key'])
    else response.setHeader('Content-Type', 'application/json').end('{"input_tokens":1}')
  }).listen(port, '127.0.0.1')
