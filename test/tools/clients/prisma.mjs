/**
 * Prisma's schema engine in its newest WebAssembly build, because its command line downloads another one at
 * installation. The operations are those behind `db push`, `db pull`, `migrate reset`, `migrate diff` and `migrate
 * deploy`.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { PrismaPg } from '@prisma/adapter-pg';
import { bindMigrationAwareSqlAdapterFactory, ColumnTypeEnum } from '@prisma/driver-adapter-utils';
import * as bindings from '@prisma/schema-engine-wasm/schema_engine_bg';
import pg from 'pg';

const { CDP_WRITER: writer, CDP_READER: reader } = process.env;
const { resolve } = createRequire(import.meta.url);

const file = resolve('@prisma/schema-engine-wasm').replace(/\.js$/, '_bg.wasm');
const { instance } = await WebAssembly.instantiate(readFileSync(file), { './schema_engine_bg.js': bindings });
bindings.__wbg_set_wasm(instance.exports);
instance.exports.__wbindgen_start();

/** The adapter does not know the type "char" of the catalogs (prisma/orm#27403): these two tell the engine what it is. */
const CHAR = 18;
let types = [];
class Pool extends pg.Pool {
  async query(...args) {
    const result = await super.query(...args);
    types = (result.fields ?? []).map(({ dataTypeID }) => dataTypeID);
    for (const field of result.fields ?? []) if (field.dataTypeID === CHAR) field.dataTypeID = pg.types.builtins.TEXT;
    return result;
  }
}
class Adapter extends PrismaPg {
  async connect() {
    const connection = await super.connect();
    const ask = connection.queryRaw.bind(connection);
    connection.queryRaw = async (query) => {
      const { columnTypes, ...rest } = await ask(query);
      return {
        ...rest,
        columnTypes: columnTypes.map((one, n) => (types[n] === CHAR ? ColumnTypeEnum.Character : one)),
      };
    };
    return connection;
  }
}

const SOURCE = 'datasource db {\n  provider = "postgresql"\n}\n';
const OWNER = `
model Owner {
  id   Int    @id @default(autoincrement())
  name String @unique
  Pet  Pet[]
}
`;
const PET = `
model Pet {
  id    Int      @id @default(autoincrement())
  name  String?  @default("?") @db.VarChar(40)
  born  DateTime @default(now()) @db.Timestamptz(6)
  fur   Decimal? @db.Decimal(5, 2)
  tags  String[]
  size  Size     @default(small)
  owner Int
  Owner Owner    @relation(fields: [owner], references: [id], onDelete: Cascade)

  @@index([name, born(sort: Desc)])
}

enum Size {
  small
  big
}
`;
const schemaOf = (content) => ({ files: [{ path: 'schema.prisma', content }] });
const first = schemaOf(SOURCE + OWNER + PET);
const second = schemaOf(SOURCE + OWNER + PET.replace('fur ', 'coat').replace('  big\n', '  big\n  huge\n'));

const open = (connectionString) => {
  const adapter = new Adapter(new Pool({ connectionString }), { schema: 'data', disposeExternalPool: true });
  const datamodels = [['schema.prisma', SOURCE]];
  return bindings.SchemaEngine.new({ datamodels }, () => {}, bindMigrationAwareSqlAdapterFactory(adapter));
};
const filters = { externalTables: [], externalEnums: [] };
const engine = await open(writer);

const push = (schema) => engine.schemaPush({ force: false, schema, filters });
assert.ok((await push(first)).executedSteps > 0);
assert.deepEqual(await push(first), { executedSteps: 0, unexecutable: [], warnings: [] });

const withoutSpaces = (content) => content.replace(/\s+/g, ' ');
for (const one of [engine, await open(reader)]) {
  const asked = {
    schema: schemaOf(SOURCE),
    baseDirectoryPath: '/',
    force: true,
    compositeTypeDepth: 0,
    namespaces: null,
  };
  const pulled = (await one.introspect(asked)).schema.files[0].content;
  assert.equal(withoutSpaces(pulled), withoutSpaces(SOURCE + OWNER + PET));
}

await engine.reset({ filter: filters });
const client = new pg.Client(writer);
await client.connect();
const tables = async () =>
  (await client.query(`SELECT tablename FROM pg_tables WHERE schemaname = 'data'`)).rows.length;
assert.equal(await tables(), 0);

const migrations = {
  baseDir: '/migrations',
  lockfile: { path: 'migration_lock.toml', content: 'provider = "postgresql"' },
  shadowDbInitScript: '',
  migrationDirectories: [],
};
const add = async (path, from, to) => {
  const params = { from, to: { tag: 'schemaDatamodel', ...to }, script: true, exitCode: null, filters };
  const { stdout } = await engine.diff({ ...params, shadowDatabaseUrl: null });
  const content = { tag: 'ok', value: stdout };
  migrations.migrationDirectories.push({ path, migrationFile: { path: 'migration.sql', content } });
};
const deploy = async () =>
  (await engine.applyMigrations({ migrationsList: migrations, filters })).appliedMigrationNames;
await add('20260101000000_first', { tag: 'empty' }, first);
assert.deepEqual(await deploy(), ['20260101000000_first']);
assert.equal(await tables(), 3);
await client.query(`INSERT INTO "Owner" (name) VALUES ('ada'); INSERT INTO "Pet" (owner) VALUES (1)`);
await add('20260102000000_second', { tag: 'schemaDatamodel', ...first }, second);
assert.deepEqual(await deploy(), ['20260102000000_second']);
assert.deepEqual(await deploy(), []);
assert.deepEqual(await push(second), { executedSteps: 0, unexecutable: [], warnings: [] });
assert.deepEqual((await client.query('SELECT size, coat FROM "Pet"')).rows, [{ size: 'small', coat: null }]);

// One that fails is on record as failed.
const content = { tag: 'ok', value: 'SELECT 1 / 0;' };
migrations.migrationDirectories.push({ path: '20260103_bad', migrationFile: { path: 'migration.sql', content } });
await assert.rejects(deploy(), /division by zero/);
const history = { migrationsList: migrations, optInToShadowDatabase: false, filters };
assert.deepEqual((await engine.diagnoseMigrationHistory(history)).failedMigrationNames, ['20260103_bad']);
await client.end();
// The engine keeps its connections.
process.exit();
