/**
 * A project's place on a Citus cluster: created, refused if the database is not suitable, measured on all nodes, and
 * dropped.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CitusTenancy } from '../../src/tenancy/citus-tenancy.js';
import { Credentials } from '../../src/tenancy/credentials.js';
import { readMigrations } from '../../src/tenancy/migrations/migrate.js';
import type { Placement } from '../../src/tenancy/placement.js';
import { ProjectDatabaseSetup } from '../../src/tenancy/project-database-setup.js';
import { type CitusCluster, hasCitus, startCitus } from '../support/citus-cluster.js';
import { connected } from '../support/postgres.js';
import type { Connection } from '../support/throwaway-postgres.js';

const credentials = new Credentials('a secret for tests, of more than 32 characters');
const databases = new ProjectDatabaseSetup(
  readMigrations('project'),
  [],
  () => Promise.resolve(true),
  () => {},
);

describe.runIf(hasCitus())('a project on a Citus cluster', () => {
  let cluster: CitusCluster;
  const opened: CitusTenancy[] = [];
  const tenancyOn = (connection: Connection): CitusTenancy => {
    const address = { ...connection, connectionTimeoutMillis: 5_000 };
    const added = { urlReference: 'env:GIANT', addedAt: 0, engine: 'citus', maxConnections: null } as const;
    const tenancy = new CitusTenancy(
      address,
      { databaseSetup: databases, credentials, previous: null, template: '' },
      'giant',
      added,
    );
    opened.push(tenancy);
    return tenancy;
  };
  const asWriter = (connection: Connection, { writer }: Placement) => ({
    ...connection,
    user: writer,
    password: credentials.password(writer),
  });

  beforeAll(async () => {
    cluster = await startCitus();
  });
  afterAll(async () => {
    for (const tenancy of opened) await tenancy.close();
    await cluster?.close();
  });

  it('has tables on one node or on all, runs as its own role, and is measured on all nodes', async () => {
    const connection = await cluster.database();
    const tenancy = tenancyOn(connection);
    const placement = await tenancy.newPlacement();
    await tenancy.create(placement);
    const before = await tenancy.sizeOf();
    await connected(asWriter(connection, placement), async (client) => {
      await client.query('CREATE TABLE data.events (id uuid PRIMARY KEY DEFAULT _cdp.uuid_v7(), text text)');
      await client.query("SELECT create_distributed_table('data.events', 'id')");
      await client.query("INSERT INTO data.events (text) SELECT repeat('x', 1000) FROM generate_series(1, 5000)");
      const nodes = await client.query('SELECT DISTINCT nodeport FROM citus_shards WHERE shard_size > 0');
      expect(nodes.rows.map(({ nodeport }) => nodeport as number).sort()).toEqual(
        cluster.workers.map(({ tcpPort }) => tcpPort).sort(),
      );
    });
    // 5,000 rows of a thousand bytes, none of them on the coordinator.
    expect((await tenancy.sizeOf()) ?? 0).toBeGreaterThan((before ?? 0) + 5_000_000);

    const second = await tenancy.newPlacement();
    await expect(tenancy.create(second)).rejects.toThrow('the database has the schema _cdp, the schema data already');
    await tenancy.drop(second);
    const left = await connected(asWriter(connection, placement), (client) => client.query('SELECT FROM data.events'));
    expect(left.rowCount).toBe(5_000);
  });

  it('disappears from every node when it is dropped, and the database can hold another project', async () => {
    const connection = await cluster.database();
    const tenancy = tenancyOn(connection);
    const placement = await tenancy.newPlacement();
    await tenancy.create(placement);
    await connected(asWriter(connection, placement), async (client) => {
      await client.query('CREATE TABLE data.events (id uuid PRIMARY KEY DEFAULT _cdp.uuid_v7())');
      await client.query("SELECT create_distributed_table('data.events', 'id')");
    });
    await tenancy.drop(placement);
    await tenancy.drop(placement);
    for (const node of [cluster.coordinator, ...cluster.workers]) {
      await connected({ ...node.connection, database: connection.database }, async (client) => {
        const { rows } = await client.query(
          `SELECT nspname FROM pg_namespace WHERE nspname IN ('data', '_cdp')
           UNION ALL SELECT rolname FROM pg_roles WHERE rolname = ANY ($1)
           UNION ALL SELECT relname FROM pg_class WHERE relname LIKE 'events%'`,
          [[placement.writer, placement.reader]],
        );
        expect(rows).toEqual([]);
      });
    }
    await tenancy.create(await tenancy.newPlacement());
  });

  it('is created once if two are created at the same time', async () => {
    const connection = await cluster.database();
    const [one, other] = [tenancyOn(connection), tenancyOn(connection)];
    const placements = [await one.newPlacement(), await other.newPlacement()] as const;
    const made = await Promise.allSettled([one.create(placements[0]), other.create(placements[1])]);
    expect(made.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    const refusal = made.find(({ status }) => status === 'rejected');
    expect(refusal).toMatchObject({
      reason: { message: expect.stringContaining('the schema data already') as string },
    });
    await one.drop(placements[made.indexOf(refusal as (typeof made)[number])] as Placement);
    expect(await one.sizeOf()).toBeGreaterThan(0);
  });

  it('is refused in a database that is not ready, with every reason', async () => {
    const create = async (connection: Connection): Promise<string> => {
      const tenancy = tenancyOn(connection);
      const placement = await tenancy.newPlacement();
      const { message } = await tenancy.create(placement).then(
        () => new Error('was created'),
        (error: unknown) => error as Error,
      );
      await tenancy.drop(placement);
      return message;
    };
    expect(await create(cluster.coordinator.connection)).toContain('the extension citus is not installed');

    const connection = await cluster.database();
    const [{ tcpPort }] = cluster.workers;
    await connected(connection, async (client) => {
      await client.query("SELECT citus_set_node_property('127.0.0.1', $1, 'shouldhaveshards', false)", [
        cluster.workers[1].tcpPort,
      ]);
      await client.query("SELECT citus_set_node_property('127.0.0.1', $1, 'shouldhaveshards', false)", [tcpPort]);
      await client.query('CREATE TABLE public.leftover ()');
      await client.query(`ALTER DATABASE ${connection.database} SET timezone = 'Europe/Berlin'`);
    });
    const message = await create(connection);
    expect(message).toContain("timezone is 'Europe/Berlin' on the node 127.0.0.1:");
    expect(message).toContain('there is no node for shards');
  });
});
