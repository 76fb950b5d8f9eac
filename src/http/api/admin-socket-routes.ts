/**
 * The routes of the admin socket, which no TCP listener has: the admin API without a token, and other routes for the
 * operator's commands.
 */
import { EngineError } from '../../contract/errors.js';
import * as wire from '../../contract/wire/admin-socket.js';
import type { Finding } from '../../contract/wire/findings.js';
import { NowQuery } from '../../contract/wire/projects.js';
import { CreateTokenBody, shownToken } from '../../contract/wire/tokens.js';
import type { ServiceUnderTest } from '../../engine/doctor/doctor.js';
import { DEFAULT_SERVER } from '../../contract/servers.js';
import { progressResponse } from '../response/progress-response.js';
import { auditOriginOf } from '../observability/audit-request.js';
import { OPERATIONS } from './operations.js';
import { endsNow, timeOf } from './call-inputs.js';
import type { Operation } from './operation.js';
import type { Route, RouteResponse, Call } from '../route.js';

/** Without an engine, which may not be open yet: `cdp doctor` runs before that. */
interface AdminSocketCall extends Omit<Call, 'engine'> {
  readonly local: ServiceUnderTest;
}

/** A route without the fields for tokens and audit entries. */
export interface AdminSocketRoute extends Pick<Route, 'method' | 'url' | 'query' | 'body' | 'success'> {
  /** A body. */
  readonly example?: unknown;
  handle(call: AdminSocketCall): Promise<RouteResponse>;
}

const ONLY_ON_SOCKET: readonly AdminSocketRoute[] = [
  {
    method: 'GET',
    url: '/api/cdp/local/placements',
    success: { status: 200 },
    async handle({ local }) {
      const { projects, archiveWatch, control } = await local.engine();
      const archived = await archiveWatch.check();
      const saved = await control.backups.savedAt();
      const placements: wire.ProjectLocation[] = (await projects.list()).map(
        ({ id, placement: { database, server, added } }) => {
          const folder = server === DEFAULT_SERVER || added !== null ? null : server;
          const state = archived.get(id);
          const isOn = state?.failure === null ? 'on' : 'failing';
          const archive = folder === null ? null : state === undefined ? 'off' : isOn;
          return { id, database, folder, archive, saved_at: saved.get(id)?.toISOString() ?? null };
        },
      );
      return { body: { success: true, placements } };
    },
  },
  {
    method: 'GET',
    url: '/api/cdp/local/tokens',
    success: { status: 200 },
    async handle({ local }) {
      const tokens = await (await local.engine()).tokens.list(null);
      return { body: { success: true, tokens: tokens.map(shownToken) } };
    },
  },
  {
    method: 'POST',
    url: '/api/cdp/local/tokens',
    body: CreateTokenBody,
    example: { name: 'ops' },
    success: { status: 201 },
    async handle({ local, request }) {
      const { name, scopes, role = null, limits, expires_at: expires } = request.body as CreateTokenBody;
      if (scopes !== undefined) throw new EngineError('invalid_request', 'An admin token has no scopes');
      if (limits !== undefined) throw new EngineError('invalid_request', 'An admin token has no limits');
      if (role !== null) throw new EngineError('invalid_request', 'An admin token acts as no role');
      const options = { name, expiresAt: expires == null ? null : timeOf('expires_at', expires) };
      const { token, details } = await (await local.engine()).tokens.create(null, options, auditOriginOf(request));
      return { body: { success: true, token, details: shownToken(details) } };
    },
  },
  {
    method: 'GET',
    url: '/api/cdp/local/projects/:project/tokens/:token_id/tables',
    success: { status: 200 },
    async handle({ local, request, signal }) {
      const { project: name, token_id: id } = request.params as { project: string; token_id: string };
      const engine = await local.engine();
      const row = await engine.projects.get(name);
      const token = (await engine.tokens.list(row.id)).find((one) => one.id === id);
      if (token === undefined) throw new EngineError('not_found', 'There is no token with this id');
      const tables = await engine.roles.tablesOf(token, engine.admit(row, null), signal);
      return { body: { success: true, tables } };
    },
  },
  {
    method: 'DELETE',
    url: '/api/cdp/local/tokens/:token_id',
    query: NowQuery,
    success: { status: 200 },
    async handle({ local, request }) {
      const { token_id: id } = request.params as { token_id: string };
      const details = await (await local.engine()).tokens.revoke(id, { now: endsNow(request) }, auditOriginOf(request));
      return { body: { success: true, details: shownToken(details) } };
    },
  },
  {
    method: 'POST',
    url: '/api/cdp/local/doctor',
    body: wire.DoctorBody,
    example: { version: '0.1.0' },
    success: { status: 200 },
    async handle(call) {
      const { examine, examineVersion } = await import('../../engine/doctor/doctor.js');
      const work = async (onFinding: (finding: Finding) => void) => {
        const { version } = call.request.body as wire.DoctorBody;
        examineVersion(version).forEach(onFinding);
        await examine(call.local, auditOriginOf(call.request), onFinding);
        return {};
      };
      await progressResponse(call, ({ say }) => work((finding) => say({ finding })));
      return { body: null };
    },
  },
  {
    method: 'POST',
    url: '/api/cdp/local/backup',
    body: wire.BackupBody,
    example: { file: '/nowhere/shop.cdp', project: 'shop', format: null, postgres_bin: null, path: '' },
    success: { status: 200 },
    async handle(call) {
      const { local, request } = call;
      const { file, project, format: form, jobs = 1, postgres_bin: folder, path } = request.body as wire.BackupBody;
      const options = { file, projectName: project, form, jobs, programSearch: { folder, path } };
      // Its modules are loaded on demand, here and below: few processes need them.
      const { backup } = await import('../../backup/backup.js');
      const services = (await local.engine()).backupServices(auditOriginOf(request));
      await progressResponse(call, (reporting) => backup(services, { ...options, ...reporting }));
      return { body: null };
    },
  },
  {
    method: 'POST',
    url: '/api/cdp/local/backup-folder',
    body: wire.FolderBackupBody,
    example: { folder: '/nowhere/cdp', is_new: false, jobs: 1, archive_days: 14, postgres_bin: null, path: '' },
    success: { status: 200 },
    async handle(call) {
      const { local, request } = call;
      const {
        postgres_bin,
        path,
        is_new: isNew,
        archive_days: archiveDays,
        ...body
      } = request.body as wire.FolderBackupBody;
      const options = { ...body, isNew, archiveDays, programSearch: { folder: postgres_bin, path } };
      const { backupToFolder } = await import('../../backup/folder/write-folder.js');
      const services = (await local.engine()).backupServices(auditOriginOf(request));
      await progressResponse(call, async (reporting) => ({
        ...(await backupToFolder(services, { ...options, ...reporting })),
      }));
      return { body: null };
    },
  },
  {
    method: 'POST',
    url: '/api/cdp/local/archive',
    body: wire.ArchiveBody,
    example: { project: 'shop', on: true },
    success: { status: 200 },
    async handle({ local, request }) {
      const { project, on } = request.body as wire.ArchiveBody;
      const { setArchiving } = await import('../../backup/archiving.js');
      await setArchiving((await local.engine()).backupServices(auditOriginOf(request)), project, on);
      return { body: { success: true } };
    },
  },
  {
    method: 'POST',
    url: '/api/cdp/local/restore',
    body: wire.RestoreBody,
    example: { file: '/nowhere/shop.cdp', project: null, as: null, at: null, postgres_bin: null, path: '' },
    success: { status: 200 },
    async handle(call) {
      const { local, request } = call;
      const { file, project, as, at, missing, replace, check, ...more } = request.body as wire.RestoreBody;
      const { server, labels, postgres_bin: folder, path } = more;
      const time = at === null ? null : timeOf('at', at);
      const where = { placementRequest: { server, labels }, programSearch: { folder, path } };
      const flags = { missing: missing ?? false, check: check ?? false };
      const options = { file, projectName: project, as, at: time, ...flags, ...where };
      const run =
        replace === true
          ? (await import('../../backup/restore-in-place.js')).restoreInPlace
          : (await import('../../backup/restore.js')).restore;
      const services = (await local.engine()).backupServices(auditOriginOf(request));
      await progressResponse(call, (reporting) => run(services, { ...options, ...reporting }));
      return { body: null };
    },
  },
];

/** An operation of the admin API, without its token. */
const withoutToken = (operation: Operation): AdminSocketRoute => ({
  ...operation,
  handle: async (call) => operation.handle({ ...call, engine: await call.local.engine() }),
});

export const ADMIN_SOCKET_ROUTES: readonly AdminSocketRoute[] = [
  ...OPERATIONS.filter(({ access }) => access === 'admin').map(withoutToken),
  ...ONLY_ON_SOCKET,
];
