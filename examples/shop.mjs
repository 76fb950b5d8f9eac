/**
 * Writes what a shop exports, into the current folder: customers.csv, orders.csv and events.ndjson, of January to June 2026. Nobody in
 * them exists, and they are the same each time. docs/cdp-in-an-afternoon.md loads them.
 */
import { writeFileSync } from 'node:fs';

const CUSTOMERS = 300;
const MONTHS = 6;
const DAY = 86_400_000;
const COUNTRIES = ['DE', 'DE', 'DE', 'FR', 'FR', 'NL', 'AT', 'GB'];
const NAMES = ['Ada', 'Bob', 'Cem', 'Dora', 'Eve', 'Finn', 'Gül', 'Hugo', 'Ines', 'Jan', 'Kim', 'Lea', 'Max', 'Nora'];

/** Numbers from 0 to 1 that look random and are the same each time (mulberry32). */
let state = 2026;
function chance() {
  state = (state + 0x6d2b79f5) | 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
}
const below = (n) => Math.floor(chance() * n);
const oneOf = (list) => list[below(list.length)];
const monthStart = (month) => Date.UTC(2026, month, 1);
const momentIn = (month, from = monthStart(month)) => from + Math.floor(chance() * (monthStart(month + 1) - from));
const iso = (ms) => new Date(ms).toISOString();

const orders = [];
const events = [];
function event(name, at, device, customer, properties) {
  const message = `m${String(events.length + 1).padStart(5, '0')}`;
  events.push({
    message_id: message,
    at: iso(at),
    name,
    device,
    ...(customer && { customer_no: customer }),
    properties,
  });
}

/** A visit from a page to an order, which most leave on the way. Who orders logs in. */
function visit(at, device, isKnown, customer, taste) {
  const product = `p${1 + below(20)}`;
  const who = isKnown ? customer : undefined;
  event('page_viewed', at, device, who, { path: '/' });
  if (chance() < 0.3) return;
  event('product_viewed', at + 60_000, device, who, { product });
  if (chance() < 0.45) return;
  event('cart_added', at + 150_000, device, who, { product });
  if (chance() < 0.3) return;
  const order = { order_no: `o${1001 + orders.length}`, customer_no: customer, ordered_at: iso(at + 400_000) };
  const total = ((10 + below(60)) * taste + below(100) / 100).toFixed(2);
  orders.push({ ...order, total });
  event('order_completed', at + 400_000, device, customer, { product, order_no: order.order_no, total: Number(total) });
}

const customers = Array.from({ length: CUSTOMERS }, (_, i) => {
  const no = `c${1001 + i}`;
  const name = NAMES[i % NAMES.length];
  const first = i % MONTHS;
  const joined = momentIn(first);
  const devices = [`d${i + 1}a`, ...(chance() < 0.3 ? [`d${i + 1}b`] : [])];
  const taste = chance() < 0.1 ? 5 : 1 + below(2);
  for (let month = first; month < MONTHS; month++) {
    if (month > first && chance() > 0.55 - 0.07 * (month - first)) continue;
    for (let visits = 1 + below(4); visits > 0; visits--)
      visit(momentIn(month, month === first ? joined : undefined), oneOf(devices), chance() < 0.6, no, taste);
  }
  return {
    customer_no: no,
    email: `${name.toLowerCase()}.${no}@example.com`,
    name,
    country: oneOf(COUNTRIES),
    joined: iso(joined),
  };
});

// Ada and Bob share a tablet.
for (const no of ['c1001', 'c1002']) event('page_viewed', monthStart(5) + 20 * DAY, 'd-tablet', no, { path: '/' });
// What a former tracker has left.
for (let n = 0; n < 40; n++)
  event('page_viewed', Date.UTC(2019, 11, 1) + n * DAY * 0.7, `d-old${n % 9}`, undefined, { path: '/' });
// Trackers send again what was not confirmed.
const sent = [...events, ...events.filter((_, n) => n % 50 === 0)];

const csv = (rows) =>
  [Object.keys(rows[0]), ...rows.map(Object.values)].map((cells) => `${cells.join(',')}\n`).join('');
orders.sort((one, other) => (one.ordered_at < other.ordered_at ? -1 : 1));
writeFileSync('customers.csv', csv(customers));
writeFileSync('orders.csv', csv(orders));
writeFileSync('events.ndjson', sent.map((one) => `${JSON.stringify(one)}\n`).join(''));
