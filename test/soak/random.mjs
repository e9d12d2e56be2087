// Random choices that a seed repeats.

/** A generator of its own for each purpose: the same seed and name give the same choices, whatever others draw. */
export class Random {
  #state

  constructor(seed, name = '') {
    this.#state = 0x9e3779b9
    for (const character of `${seed}/${name}`) this.#state = Math.imul(this.#state ^ character.charCodeAt(0), 0x01000193)
  }

  /** In [0, 1). */
  next() {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let t = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }

  /** A whole number from `least` to `most`, both included. */
  between(least, most) {
    return least + Math.floor(this.next() * (most - least + 1))
  }

  chance(probability) {
    return this.next() < probability
  }

  pick(list) {
    return list[Math.floor(this.next() * list.length)]
  }

  /** One key of {name: weight}. */
  weighted(weights) {
    const entries = Object.entries(weights).filter(([, weight]) => weight > 0)
    let at = this.next() * entries.reduce((sum, [, weight]) => sum + weight, 0)
    for (const [name, weight] of entries) if ((at -= weight) < 0) return name
    return entries.at(-1)[0]
  }
}
