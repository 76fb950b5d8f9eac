/**
 * A Citus cluster, by the address of its coordinator, for one project on several machines. The project lives in a
 * database of the operator that contains only Citus (docs/citus.md). Nothing is cloned: the migrations run in that
 * database. Tables are local to the coordinator until they are distributed.
 */
import { EngineError } from '../contract/errors.js';
import { ident, type Session, sql, trusted } from '../pg/index.js';
import { isOlder } from '../version.js';
import { installedExtensions } from './extensions.js';
import { isSuperuser } from './own-schemas.js';
import { dumpRole, type Placement } from './placement.js';
import { dropRole, ensureRoles, grantProjectRights, rolesOf } from './project-rights.js';
import { serviceWork } from './postgres-errors.js';
import { lockDatabase, TenancyByAddress } from './tenancy-by-address.js';

/** In earlier versions, an INSERT … SELECT of a grouped query may store nothing without an error (Citus issue 8243). */
const OLDEST = '13.2.1';

export class CitusTenancy extends TenancyByAddress {
  readonly distributesTables = true;
  readonly obstacleToStream = 'the target is a Citus cluster';
  /** A statement takes several connections of each worker. */
  protected override readonly connectionLimit = -1;

  /** The project lives in the database that the operator has prepared. */
  newPlacement(): Promise<Placement> {
    return Promise.resolve(this.placementIn(this.address.database, false));
  }

  /** The event triggers that limit this right do not affect what Citus does on the workers. */
  allowsOwnSchemas(): Promise<boolean> {
    return Promise.resolve(false);
  }

  /** @throws EngineError invalid_request if the cluster is not ready for a project, or has one */
  async create(placement: Placement): Promise<void> {
    await this.asService(async (locking) => {
      // Two installations may use the same database.
      await lockDatabase(locking, placement.database);
      await this.fill(placement);
    });
  }

  private async fill(placement: Placement): Promise<void> {
    // Citus logs in to the workers as the role of a statement: a role has to be committed before it is used.
    await this.asService(async (session) => {
      await requireCluster(session);
      await requireEmpty(session);
      await clearPublic(session);
      await ensureRoles(session, [placement.writer, placement.reader], (role) => this.roleOptions(role));
    });
    await this.asService(async (session) => {
      // Otherwise each schema would be distributed as a whole to one worker.
      await session.query(sql`SET citus.enable_schema_based_sharding = off`);
      await this.provisioning.databaseSetup.prepare(session);
      await session.query(sql`REVOKE ALL ON DATABASE ${ident(placement.database)} FROM PUBLIC`);
      await grantProjectRights(session, placement);
    });
    await this.provisioning.databaseSetup.grantDefaults(this, placement);
  }

  /** The roles go last: they show whether the project in the database is that of the placement. */
  async drop(placement: Placement): Promise<void> {
    const { database, schema, writer } = placement;
    await this.asService(async (session) => {
      await lockDatabase(session, database);
      const [isOurs] = await session.row(sql`SELECT 1 FROM pg_roles WHERE rolname = ${writer}`);
      if (isOurs === undefined) return;
      const roles = await rolesOf(session, placement);
      await session.query(sql`SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity
        WHERE usename = ANY (${roles})`);
      for (const name of [schema, '_cdp']) await session.query(sql`DROP SCHEMA IF EXISTS ${ident(name)} CASCADE`);
      for (const role of [dumpRole({ writer }), ...roles.reverse()]) await dropRole(session, role);
    });
  }

  markRole(): Promise<void> {
    return Promise.resolve();
  }

  /** The operator has created the database, and the roles go with the project. */
  createdObjects(): Promise<null> {
    return Promise.resolve(null);
  }

  /** Citus prepares transactions itself, and finishes them. */
  rollBackPrepared(): Promise<void> {
    return Promise.resolve();
  }

  /** A worker may have missed the end of a committed transaction; its rows would be invisible. */
  async recoverPrepared(session: Session): Promise<void> {
    await session.query(sql`SELECT recover_prepared_transactions()`);
  }

  /** There are no other projects. */
  hideOthers(): Promise<void> {
    return Promise.resolve();
  }

  /** The size on all nodes together; null if one of them does not answer. */
  sizeOf(): Promise<number | null> {
    return serviceWork(async () => {
      const [bytes] = await this.server.pool.row(
        sql`SELECT CASE WHEN bool_and(success) THEN sum(CASE WHEN success THEN result::bigint END) END
            FROM run_command_on_all_nodes('SELECT pg_database_size(current_database())')`,
      );
      return bytes == null ? null : Number(bytes);
    });
  }

  extensions(): Promise<string[]> {
    return serviceWork(() => this.asService(installedExtensions));
  }
}

/** Checks all requirements, and reports all that are not met. */
async function requireCluster(session: Session): Promise<void> {
  const [extension] = await session.query(sql`SELECT 1 FROM pg_extension WHERE extname = 'citus'`);
  if (extension === undefined) throw notReady(['the extension citus is not installed in this database']);
  const [version, workers] = await session.row(
    sql`SELECT substring(citus_version() FROM '^Citus ([0-9.]+)'),
          count(*) FILTER (WHERE shouldhaveshards AND isactive) FROM pg_dist_node`,
  );
  const nodes = await session.query(
    sql`SELECT nodename || ':' || nodeport, success, result FROM run_command_on_all_nodes('SHOW timezone')
        JOIN pg_dist_node USING (nodeid)`,
  );
  const wrong = nodes.flatMap(([node, success, zone]) => {
    if (success !== 't') return [`the node ${node} does not answer: ${zone}`];
    // Workers use their own time zone, for instance in date_trunc.
    return UTC.has(zone ?? '') ? [] : [`timezone is '${zone}' on the node ${node}, and must be 'UTC' on all nodes`];
  });
  if (isOlder(version ?? '', OLDEST)) wrong.push(`Citus is ${version}, and must be ${OLDEST} or later`);
  if (Number(workers) === 0) wrong.push('there is no node for shards: run SELECT citus_add_node(…) on the coordinator');
  if (!(await isSuperuser(session))) wrong.push('the role of its address is not a superuser');
  if (wrong.length > 0) throw notReady(wrong);
}

const UTC = new Set(['UTC', 'Etc/UTC', 'GMT', 'Universal', 'Zulu', 'Etc/Universal', 'Etc/Zulu']);

/** A cluster takes only one project. */
async function requireEmpty(session: Session): Promise<void> {
  const rows = await session.query(
    sql`SELECT format('the schema %I', nspname) FROM pg_namespace WHERE nspname IN ('data', '_cdp')
        UNION ALL SELECT format('the relation %s', oid::regclass) FROM pg_class
        WHERE relnamespace = to_regnamespace('public') AND NOT oid = ANY (${OF_CITUS})`,
  );
  if (rows.length > 0) throw notReady([`the database has ${rows.map(([what]) => what).join(', ')} already`]);
}

/** Relations of the extension, as an array of their oids. */
const OF_CITUS = sql`ARRAY (SELECT d.objid FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
  WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_extension'::regclass AND e.extname = 'citus')`;

/** Citus creates views in `public`, a schema that no project's database has. */
async function clearPublic(session: Session): Promise<void> {
  const views = await session.query(
    sql`SELECT oid::regclass FROM pg_class WHERE relnamespace = to_regnamespace('public') AND oid = ANY (${OF_CITUS})`,
  );
  for (const [view] of views) await session.query(sql`ALTER VIEW ${trusted(view ?? '')} SET SCHEMA citus`);
}

const notReady = (wrong: readonly string[]): EngineError =>
  new EngineError('invalid_request', `The Citus cluster is not ready for a project: ${wrong.join('; ')}`, {
    hint: 'A cluster has one project, in a database that contains Citus and nothing else (docs/citus.md).',
  });
