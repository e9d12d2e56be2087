// Changes of a text that keep the positions of everything else: lines never move.
'use strict'

class Edits {
  constructor(text) {
    this.text = text
    this.list = [] // {start, end, text}, in the order of their making
  }

  insert(at, text) {
    this.list.push({ start: at, end: at, text })
  }

  // The new text must have as many lines as the old one, or fewer: missing lines are added.
  replace(start, end, text) {
    const missing = countLines(this.text.slice(start, end)) - countLines(text)
    this.list.push({ start, end, text: text + '\n'.repeat(Math.max(missing, 0)) })
  }

  // Spaces instead of the text; `first` takes the place of the first space, if given.
  blank(start, end, first = '') {
    if (end <= start) return
    const spaces = this.text.slice(start, end).replace(/[^\n\r\u2028\u2029]/g, ' ')
    this.list.push({ start, end, text: first ? first + spaces.slice(/^ /.test(spaces) ? 1 : 0) : spaces })
  }

  // A part of the text with the changes inside of it. Of changes that overlap, the one that was made last and reaches farthest wins.
  render(from = 0, to = this.text.length) {
    const inside = this.list.map((edit, order) => ({ ...edit, order })).filter((edit) => edit.start >= from && edit.end <= to)
    inside.sort((a, b) => a.start - b.start || (a.end === a.start ? -1 : 0) - (b.end === b.start ? -1 : 0) || b.end - a.end || a.order - b.order)
    let out = ''
    let at = from
    for (const edit of inside) {
      if (edit.start < at) continue // inside of a bigger change
      out += this.text.slice(at, edit.start) + edit.text
      at = edit.end
    }
    return out + this.text.slice(at, to)
  }
}

function countLines(text) {
  return text.split('\n').length
}

module.exports = { Edits }
