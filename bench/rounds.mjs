/**
 * Measurements in rounds: each round runs all targets in turn, so that a slow minute of the machine affects all of
 * them.
 */

/**
 * @typedef {object} Work what is done to one target
 * @property {number} connections
 * @property {number} unitsPerAnswer
 * @property {(target: object) => Promise<object>} prepare once; @returns the order for its load generator
 * @property {(target: object) => Promise<void>} reset before each measurement
 * @property {(target: object, counted: object) => Promise<void>} check after each; throws if something is wrong
 */

/**
 * @param {import('./house.mjs').House} house
 * @param {object[]} targets
 * @param {Work} work
 * @returns {Promise<Record<string, object[]>>} measurements by target, the rounds in order
 */
export async function interleave(house, targets, work) {
  const orders = new Map();
  for (const target of targets) {
    const order = { ...(await work.prepare(target)), connections: work.connections };
    orders.set(target, order);
    await work.reset(target);
    await work.check(target, await house.warmUp(target, order));
  }
  const measured = Object.fromEntries(targets.map(({ name }) => [name, []]));
  for (let round = 0; round < house.options.rounds; round++) {
    for (const target of targets) {
      await work.reset(target);
      const result = await house.measure(target, orders.get(target), work.unitsPerResponse);
      await work.check(target, result);
      measured[target.name].push(result);
    }
  }
  return measured;
}

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/**
 * The ratio of two targets, taken round by round.
 * @returns {{ median: number, min: number, max: number } | null} null if one of them was not measured
 */
export function ratio(of, to, value = ({ perSecond }) => perSecond) {
  if (of === undefined || to === undefined) return null;
  const ratios = of.map((measured, round) => value(measured) / value(to[round]));
  return { median: median(ratios), min: Math.min(...ratios), max: Math.max(...ratios) };
}
