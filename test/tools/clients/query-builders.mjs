/** Kysely and Knex: migrations and introspection. */
import assert from 'node:assert/strict';
import knex from 'knex';
import { Kysely, Migrator, PostgresDialect, sql } from 'kysely';
import pg from 'pg';

const { CDP_WRITER: writer } = process.env;

const kysely = new Kysely({ dialect: new PostgresDialect({ pool: new pg.Pool({ connectionString: writer }) }) });
const migrations = {
  1: {
    up: (db) =>
      db.schema
        .createTable('things')
        .addColumn('id', 'integer', (column) => column.primaryKey().generatedAlwaysAsIdentity())
        .addColumn('name', 'text', (column) => column.notNull())
        .execute(),
  },
};
// Kysely finds its own tables again only if it is told their schema, since the search path has no "public".
const migrator = new Migrator({
  db: kysely,
  provider: { getMigrations: () => Promise.resolve(migrations) },
  migrationTableSchema: 'kysely',
});
for (const expected of [1, 0]) {
  const { error, results } = await migrator.migrateToLatest();
  assert.ifError(error);
  assert.equal(results.length, expected);
}
await kysely
  .insertInto('things')
  .values([{ name: 'a' }, { name: 'b' }])
  .execute();
const tables = await kysely.introspection.getTables();
const things = tables.find(({ name, schema }) => name === 'things' && schema === 'data');
assert.deepEqual(
  things.columns.map(({ name, dataType, isAutoIncrementing }) => [name, dataType, isAutoIncrementing]),
  [
    ['id', 'int4', true],
    ['name', 'text', false],
  ],
);
assert.deepEqual((await sql`SELECT count(*)::int AS n FROM things`.execute(kysely)).rows, [{ n: 2 }]);
await kysely.destroy();

const db = knex({ client: 'pg', connection: writer });
class Source {
  getMigrations = () => Promise.resolve(['first']);
  getMigrationName = (name) => name;
  getMigration = () =>
    Promise.resolve({
      up: (at) => at.schema.createTable('shelves', (table) => (table.increments(), table.string('label', 40).index())),
      down: (at) => at.schema.dropTable('shelves'),
    });
}
const migration = { migrationSource: new Source(), schemaName: 'knex' };
await db.raw('CREATE SCHEMA knex');
assert.deepEqual((await db.migrate.latest(migration))[1], ['first']);
assert.equal(await db.schema.hasTable('shelves'), true);
assert.equal((await db('shelves').columnInfo()).label.maxLength, 40);
await db.transaction((tx) => tx('shelves').insert({ label: 'x' }));
assert.deepEqual((await db.migrate.rollback(migration))[1], ['first']);
await db.destroy();
