/** Policies, rights and settings after a copy between a project's own server and a shared one, both ways. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { copyDatabase } from '../../src/moves/copy.js';
import { differentPolicies, policiesOf } from '../../src/backup/logical/policies.js';
import { differentRights, rightsOf } from '../../src/backup/logical/rights.js';
import { streamDatabase } from '../../src/moves/stream.js';
import { NEVER_ABORTED } from '../../src/db/backend-request.js';
import { BY_ITSELF } from '../../src/contract/audit.js';
import { serverRefOf } from '../../src/tenancy/control/server-rows.js';
import type { Placement } from '../../src/tenancy/placement.js';
import { inDatabase, type Tenancy } from '../../src/tenancy/tenancy.js';
import { withServer } from '../../src/tenancy/postgres-server.js';
import { describeAccess, makeAccess, rowsSeen } from '../support/access.js';
import { type AddedServer, startAddedServer, variableWith } from '../support/added-server.js';
import { connected } from '../support/postgres.js';
import { eventually } from '../support/program.js';
import { inProject, startOwnService, type TestService } from '../support/service.js';

interface Place {
  readonly tenancy: Tenancy;
  readonly placement: Placement;
}

let other: AddedServer;
let service: TestService;
let shared: Tenancy;
let source: Place;
const made: Place[] = [];

beforeAll(async () => {
  other = await startAddedServer(18);
  await connected(other.connection, (client) => client.query('ALTER ROLE cdp SUPERUSER'));
  service = await startOwnService();
  const admin = (await service.engine.tokens.create(null)).token;
  const body = { name: 'eu-1', url_reference: `env:${variableWith(other.url)}` };
  const added = await service.call('POST', '/api/cdp/admin/servers', { token: admin, body });
  if (added.status !== 201) throw new Error(added.text);
  const row = await service.engine.control.servers.get('eu-1');
  if (row === null) throw new Error('It was added');
  shared = service.engine.servers.tenancyOf(serverRefOf(row));
  const project = await service.project('guarded', 'default');
  await project.rows('SELECT 1');
  const { placement } = await service.engine.projects.get('guarded');
  source = { tenancy: service.engine.servers.tenancyOf(placement), placement };
  await at(source, (client) => makeAccess(client, placement));
});
afterAll(async () => {
  for (const { tenancy, placement } of made) await tenancy.drop(placement);
  await service.close();
  await other.close();
});

/** As a superuser. */
const at = <T>({ tenancy, placement }: Place, work: Parameters<typeof inProject<T>>[2]): Promise<T> =>
  withServer(tenancy.serverOf(placement), () =>
    tenancy === shared
      ? connected({ ...other.connection, database: placement.database }, work)
      : inProject(service, placement, work),
  );

const described = (place: Place) => at(place, (client) => describeAccess(client, place.placement));

const placeFor = async (tenancy: Tenancy): Promise<Place> => {
  const place = { tenancy, placement: await tenancy.newPlacement() };
  await tenancy.create(place.placement);
  made.push(place);
  return place;
};

const copyTo = async (from: Place, tenancy: Tenancy, copy = copyDatabase as typeof streamDatabase): Promise<Place> => {
  const target = await placeFor(tenancy);
  const options = {
    source: from,
    target,
    verify: 'full',
    signal: NEVER_ABORTED,
    endWrites: () => Promise.resolve(),
  } as const;
  const { leftOut } = await withServer(from.tenancy.serverOf(from.placement), () =>
    withServer(tenancy.serverOf(target.placement), () => copy(options)),
  );
  expect(leftOut).toEqual([]);
  return target;
};

it('are those of the source on a shared server, and again on a server of its own', async () => {
  const before = await described(source);
  expect(await at(source, (client) => rowsSeen(client, source.placement))).toEqual(['open', 'sent BY writer']);
  const moved = await copyTo(source, shared);
  expect(await described(moved)).toEqual(before);
  expect(await at(moved, (client) => rowsSeen(client, moved.placement))).toEqual(['open', 'sent BY writer']);
  const back = await copyTo(moved, source.tenancy);
  expect(await described(back)).toEqual(before);
  expect(await at(back, (client) => rowsSeen(client, back.placement))).toEqual(['open', 'sent BY writer']);
});

it('are compared by the catalogs: a policy or a right that was changed is named', async () => {
  const copied = await copyTo(source, shared);
  const access = ({ tenancy, placement }: Place) =>
    inDatabase(tenancy, placement, async (session) => ({
      policies: await policiesOf(session, placement),
      rights: await rightsOf(session, placement),
    }));
  const before = await access(source);
  const differences = async () => {
    const after = await access(copied);
    return [
      ...differentPolicies(before.policies, after.policies, true),
      ...differentRights(before.rights, after.rights),
    ];
  };
  expect(await differences()).toEqual([]);
  const { writer, reader } = copied.placement;
  const change = (text: string) => at(copied, (client) => client.query(text));
  await change(`ALTER POLICY hidden ON data.labels USING (label <> 'BY ${writer}' AND label <> 'TO ${reader}')`);
  expect(await differences()).toEqual(['data.labels "hidden" (POLICY): differs']);
  await change(`DROP POLICY hidden ON data.labels; ALTER POLICY equal ON data.labels TO PUBLIC`);
  await change(`GRANT SELECT ON data.closed TO ${reader}; REVOKE ALL ON FUNCTION data.secret FROM ${reader}`);
  expect(await differences()).toEqual([
    'data.labels "equal" (POLICY): differs',
    'data.labels "hidden" (POLICY): differs',
    'the right of reader to FUNCTION data.secret(text): differs',
    'the right of reader to TABLE data.closed: differs',
  ]);
});

it.each([
  [
    'policy',
    'CREATE POLICY others ON data.labels AS RESTRICTIVE TO intern, reader USING (false)',
    /"others".*"intern" does not exist/,
  ],
  ['grant', 'GRANT SELECT ON data.labels TO intern', /right of intern to TABLE data.labels.*"intern" does not exist/],
])('are not left out if a %s names a role that the target lacks', async (_what, statement, message) => {
  await at(source, (client) => client.query(`CREATE ROLE intern; ${statement}`));
  const failed: unknown = await copyTo(source, shared).catch((error: unknown) => error);
  await at(source, (client) =>
    client.query('DROP OWNED BY intern; DROP POLICY IF EXISTS others ON data.labels; DROP ROLE intern'),
  );
  expect((failed as Error).message).toMatch(message);
});

it('are those of the source after a stream, whose writer may not delete', async () => {
  await at(source, (client) => client.query('SELECT lo_unlink(4711)'));
  const streamed = await copyTo(source, shared, streamDatabase);
  expect(await described(streamed)).toEqual(await described(source));
});

it('and the right to create schemas are as set at the switch, even if that was changed during the move', async () => {
  const { moves, projects, servers } = service.engine;
  const project = await service.project('changing', 'default');
  await project.table('held', { a: 'TEXT' });
  const { placement } = await projects.get('changing');
  const id = await at({ tenancy: servers.tenancyOf(placement), placement }, async (client) => {
    await client.query('BEGIN; LOCK TABLE data.held');
    const options = { mode: 'copy', verify: 'counts', maxPauseMs: null } as const;
    const move = await moves.start('changing', 'eu-1', options, BY_ITSELF);
    await eventually('it is copying', async () => (await moves.get(move.id)).state === 'copying');
    // It is stored, and cannot be applied at the old place any more.
    const set = projects.setOwnSchemas('changing', false, BY_ITSELF);
    await expect(set).rejects.toMatchObject({ code: 'database_unavailable' });
    return move.id;
  });
  await eventually('it has ended', async () => (await moves.get(id)).endedAt !== null);
  expect((await moves.get(id)).state).toBe('done');
  expect(await projects.examine(await projects.get('changing'))).toEqual([]);
});
