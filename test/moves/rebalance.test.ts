/** Which moves are planned for a given set of servers and projects. */
import { expect, it } from 'vitest';
import { type Offer, planRebalance, type RebalanceFacts } from '../../src/moves/rebalance.js';
import type { ProjectRow } from '../../src/tenancy/control/control-rows.js';
import type { ServerRow } from '../../src/tenancy/control/server-rows.js';

const server = (name: string, more: Partial<ServerRow> = {}): ServerRow => ({
  ...{ name, urlReference: name === 'default' ? null : `env:${name}`, engine: 'postgres', tenancy: 'shared' },
  ...{ labels: {}, weight: 1, maxProjects: null, maxBytes: null, maxConnections: null, status: 'active' },
  ...{ replicas: [], consistency: 'strong', facts: null, projects: 0, createdAt: new Date(0) },
  ...more,
});

/** `a`, `a2`, … on that server. */
const projects = (where: string, count: number): ProjectRow[] =>
  Array.from({ length: count }, (_, n) => ({
    ...{ id: `${where}-${n}`, name: `${where}-${n}`, status: 'active' as const, schemaVersion: 1, quotaBytes: null },
    ...{ sizeBytes: null, replicas: null, events: null, feed: null, isFenced: false, createdAt: new Date(0) },
    placement: {
      server: where,
      added: where === 'default' ? null : { urlReference: '', addedAt: 0, engine: 'postgres', maxConnections: null },
      ...{ database: '', schema: 'data', writer: '', reader: '', ownSchemas: false },
    },
  }));

const OFFER: Offer = { major: 18, extensions: [], allowsOwnSchemas: true };

/** How many are to move, by `from -> to`. */
const planned = (
  servers: ServerRow[],
  all: ProjectRow[],
  more: Partial<RebalanceFacts> = {},
): Record<string, number> => {
  const counts: Record<string, number> = {};
  const offers = new Map(servers.map(({ name }) => [name, OFFER]));
  const facts = {
    servers,
    projects: all,
    offers,
    sizes: new Map<string, number>(),
    withSchemas: new Set<string>(),
  };
  for (const { from, to } of planRebalance({ ...facts, ...more }))
    counts[`${from} -> ${to}`] = (counts[`${from} -> ${to}`] ?? 0) + 1;
  return counts;
};

it.each<[string, ServerRow[], ProjectRow[], Record<string, number>]>([
  ['nothing to do', [server('default'), server('eu')], [...projects('default', 2), ...projects('eu', 1)], {}],
  ['half of them', [server('default'), server('eu')], projects('default', 10), { 'default -> eu': 5 }],
  ['by weight', [server('default'), server('eu', { weight: 4 })], projects('default', 10), { 'default -> eu': 8 }],
  ['only one server', [server('default')], projects('default', 10), {}],
  [
    'a draining one is emptied, to the least loaded',
    [server('default'), server('eu', { status: 'draining' }), server('us')],
    [...projects('default', 2), ...projects('eu', 4)],
    { 'eu -> us': 3, 'eu -> default': 1 },
  ],
  [
    'nobody takes the rest',
    [server('default', { status: 'closed' }), server('eu', { status: 'draining' }), server('us', { maxProjects: 1 })],
    projects('eu', 2),
    { 'eu -> us': 1, 'eu -> null': 1 },
  ],
  [
    'labels hold',
    [server('eu', { labels: { region: 'eu' } }), server('us', { labels: { region: 'us' } }), server('default')],
    [...projects('eu', 9), ...projects('default', 3)],
    { 'default -> us': 1 },
  ],
  ['Citus is left alone', [server('default'), server('citus', { engine: 'citus' })], projects('default', 4), {}],
  [
    'one of its own takes one',
    [server('default'), server('eu', { tenancy: 'dedicated' })],
    projects('default', 4),
    { 'default -> eu': 1 },
  ],
])('%s', (_name, servers, all, moves) => expect(planned(servers, all)).toEqual(moves));

const offered = (of: Record<string, Partial<Offer>>): Partial<RebalanceFacts> => ({
  offers: new Map(Object.entries(of).map(([name, offer]) => [name, { ...OFFER, ...offer }])),
});

it.each<[string, ServerRow, Partial<RebalanceFacts>, Record<string, number>]>([
  ['of an earlier major', server('eu'), offered({ default: {}, eu: { major: 15 } }), {}],
  ['of a later major', server('eu'), offered({ default: { major: 15 }, eu: {} }), { 'default -> eu': 2 }],
  ['without its extensions', server('eu'), offered({ default: { extensions: ['vector'] }, eu: {} }), {}],
  ['that does not answer', server('eu'), offered({ default: {} }), {}],
  [
    'that would have more bytes than it may',
    server('eu', { maxBytes: 150 }),
    { sizes: new Map(['0', '1', '2', '3'].map((n) => [`default-${n}`, 100])) },
    { 'default -> eu': 1 },
  ],
  [
    'that allows no schemas, but for projects that have none',
    server('eu'),
    {
      ...offered({ default: {}, eu: { allowsOwnSchemas: false } }),
      withSchemas: new Set(['0', '2', '3'].map((n) => `default-${n}`)),
    },
    { 'default -> eu': 1 },
  ],
])('never moves a project to a server %s', (_name, eu, facts, moves) =>
  expect(planned([server('default'), eu], projects('default', 4), facts)).toEqual(moves),
);

it('says why no server accepts a project', () => {
  const servers = [
    server('eu', { status: 'draining', labels: { region: 'eu' } }),
    server('closed', { status: 'closed' }),
    server('full', { labels: { region: 'eu' }, maxProjects: 0 }),
    server('us', { labels: { region: 'us' } }),
    server('away', { labels: { region: 'eu' } }),
  ];
  const offers = new Map(['eu', 'full', 'us', 'closed'].map((name) => [name, OFFER]));
  const facts = { servers, projects: projects('eu', 1), offers, sizes: new Map(), withSchemas: new Set<string>() };
  expect(planRebalance(facts)).toEqual([
    {
      project: 'eu-0',
      from: 'eu',
      to: null,
      obstacles: {
        closed: 'it is closed',
        full: 'it has reached its limit of projects',
        us: 'it does not have the labels region=eu',
        away: 'it does not answer',
      },
    },
  ]);
});

it('a draining server that does not answer keeps its projects', () => {
  const servers = [server('default'), server('eu', { status: 'draining' })];
  expect(planned(servers, projects('eu', 2), offered({ default: {} }))).toEqual({ 'eu -> null': 2 });
});
