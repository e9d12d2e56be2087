// The table: ratios first, then what they are ratios of.

const us = (v) => (v >= 1e6 ? `${(v / 1e6).toFixed(2)} s` : v >= 1000 ? `${(v / 1000).toFixed(2)} ms` : `${v.toFixed(0)} us`)
export const units = {
  us,
  rate: (v) => `${v >= 1000 ? Math.round(v).toLocaleString('en') : v.toFixed(1)}/s`,
  kib: (v) => (v >= 1024 ? `${(v / 1024).toFixed(2)} MiB` : `${v.toFixed(0)} KiB`),
  mbs: (v) => `${v.toFixed(0)} MB/s`,
  count: (v) => String(v),
  percent: (v) => `${v.toFixed(2)} %`,
}

/** Rows: {name, value, unit, floor?, floorName?, limit?: {at most | at least}, note?} */
export function row(name, value, unit, { floor, floorName = 'floor', atMost, atLeast, ratioAtMost, ratioAtLeast, note } = {}) {
  const ratio = floor && value ? value / floor : undefined // "times the floor", also where more is better
  let met
  if (atMost !== undefined) met = value <= atMost
  if (atLeast !== undefined) met = value >= atLeast
  if (ratioAtMost !== undefined && ratio !== undefined) met = ratio <= ratioAtMost
  if (ratioAtLeast !== undefined && ratio !== undefined) met = ratio >= ratioAtLeast
  const format = units[unit]
  const goal = [
    atMost !== undefined && `≤ ${format(atMost)}`,
    atLeast !== undefined && `≥ ${format(atLeast)}`,
    ratioAtMost !== undefined && `≤ ${ratioAtMost}×`,
    ratioAtLeast !== undefined && `≥ ${ratioAtLeast}×`,
  ].filter(Boolean).join(', ')
  return { name, value, unit, floor, floorName: floor ? floorName : undefined, ratio, goal, met, note }
}

export function print(rows) {
  const cells = rows.map((r) => [
    r.ratio === undefined ? '' : `${r.ratio < 10 ? r.ratio.toFixed(2) : r.ratio.toFixed(0)}×`,
    r.name,
    r.value === undefined ? 'not measured' : units[r.unit](r.value),
    r.floor === undefined ? '' : `${units[r.unit](r.floor)} ${r.floorName}`,
    r.goal,
    r.met === undefined ? '' : r.met ? 'met' : 'NOT MET',
    r.note ?? '',
  ])
  const head = ['ratio', 'what', 'here', 'compared with', 'goal', '', '']
  const widths = head.map((h, i) => Math.max(h.length, ...cells.map((c) => c[i].length)))
  const line = (c) => c.map((text, i) => (i === 0 || i === 2 ? text.padStart(widths[i]) : text.padEnd(widths[i]))).join('  ').trimEnd()
  console.log(line(head))
  console.log(widths.map((w) => '-'.repeat(w)).join('  '))
  for (const c of cells) console.log(line(c))
}
