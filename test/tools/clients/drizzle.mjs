/**
 * Drizzle: drizzle-kit generates a migration, drizzle-orm applies it twice, then drizzle-kit reads the tables back. The
 * schema already exists, so the statement that creates it is removed from the first migration. Tables without a schema
 * are in `public`, which the project creates first: drizzle-kit writes that name into references to them.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { eq } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import { migrate } from 'drizzle-orm/node-postgres/migrator';
import { boolean, integer, pgSchema, serial, text } from 'drizzle-orm/pg-core';
import pg from 'pg';

const { CDP_WRITER: writer, CDP_READER: reader } = process.env;
const modules = fileURLToPath(new URL('node_modules', import.meta.url));
const folder = mkdtempSync('/tmp/cdp-drizzle-');
symlinkSync(modules, join(folder, 'node_modules'));
const write = (name, content) => writeFileSync(join(folder, name), content);
const kit = (args, url = writer) => {
  const options = { cwd: folder, encoding: 'utf8', env: { ...process.env, CDP_WRITER: url } };
  return execFileSync(process.execPath, [join(modules, 'drizzle-kit/bin.cjs'), args], options);
};
const config = (out) =>
  `export default { dialect: 'postgresql', schema: './tables.ts', out: '${out}', schemaFilter: ['data'], dbCredentials: { url: process.env.CDP_WRITER } };`;
try {
  write('package.json', '{"type":"module"}');
  write(
    'tables.ts',
    `import { boolean, index, integer, pgSchema, serial, text } from 'drizzle-orm/pg-core';
     export const data = pgSchema('data');
     export const owners = data.table('owners', { id: serial().primaryKey(), name: text().notNull().unique() });
     export const pets = data.table('pets', {
       id: serial().primaryKey(), name: text().default('?'), tame: boolean().notNull().default(true),
       owner: integer().references(() => owners.id, { onDelete: 'cascade' }) }, (t) => [index('pets_name').on(t.name)]);`,
  );
  write('drizzle.config.ts', config('made'));
  kit('generate');
  const [first] = readdirSync(join(folder, 'made')).filter((name) => name.endsWith('.sql'));
  const made = readFileSync(join(folder, 'made', first), 'utf8');
  write(join('made', first), made.replace(/^CREATE SCHEMA "data";\n--> statement-breakpoint\n/, ''));
  const pool = new pg.Pool({ connectionString: writer });
  const db = drizzle(pool);
  for (let time = 0; time < 2; time++) await migrate(db, { migrationsFolder: join(folder, 'made') });
  // drizzle-kit applies the same, and finds that it is done.
  kit('migrate');
  const done = await pool.query('SELECT count(*)::int AS n FROM drizzle.__drizzle_migrations');
  assert.equal(done.rows[0].n, readdirSync(join(folder, 'made')).filter((name) => name.endsWith('.sql')).length);

  const data = pgSchema('data');
  const owners = data.table('owners', { id: serial().primaryKey(), name: text().notNull() });
  const pets = data.table('pets', { id: serial(), name: text(), tame: boolean(), owner: integer() });
  const [ada] = await db.insert(owners).values({ name: 'ada' }).returning();
  await db.insert(pets).values([{ name: 'rex', owner: ada.id }, { owner: ada.id }]);
  const joined = await db.select().from(pets).innerJoin(owners, eq(owners.id, pets.owner)).orderBy(pets.id);
  assert.deepEqual(
    joined.map((row) => [row.pets.name, row.pets.tame, row.owners.name]),
    [
      ['rex', true, 'ada'],
      ['?', true, 'ada'],
    ],
  );
  await assert.rejects(
    db.transaction(async (tx) => {
      await tx.delete(owners);
      tx.rollback();
    }),
  );
  await pool.end();

  write('drizzle.config.ts', config('pulled'));
  kit('pull');
  const pulled = readFileSync(join(folder, 'pulled/schema.ts'), 'utf8');
  for (const part of ['data.table("owners"', '.onDelete("cascade")', 'index("pets_name")', ".default('?')"]) {
    assert.ok(pulled.includes(part), `${part} in\n${pulled}`);
  }

  const only = new pg.Pool({ connectionString: reader });
  assert.equal((await drizzle(only).select().from(pets)).length, 2);
  await only.end();

  const inPublic = `${writer}?options=-csearch_path%3Dpublic`;
  const other = new pg.Pool({ connectionString: inPublic });
  const there = async () =>
    (await other.query(`SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1`)).rows.map(
      ({ tablename }) => tablename,
    );
  await other.query('CREATE SCHEMA public');
  const plain = (more) => `import { integer, pgEnum, pgTable, serial, text } from 'drizzle-orm/pg-core';
     export const kind = pgEnum('kind', ['cat', 'dog']);
     export const keepers = pgTable('keepers', { id: serial().primaryKey(), name: text().unique()${more} });
     export const kept = pgTable('kept', { keeper: integer().references(() => keepers.id), kind: kind() });`;
  const plainConfig = (out) => config(out).replace(`schemaFilter: ['data'], `, '');
  write('tables.ts', plain(''));
  write('drizzle.config.ts', plainConfig('plain'));
  kit('generate');
  kit('migrate', inPublic);
  assert.match(kit('push', inPublic), /No changes detected/);
  write('tables.ts', plain(', age: integer()'));
  kit('push', inPublic);
  assert.deepEqual(await there(), ['keepers', 'kept']);
  await other.query(`WITH one AS (INSERT INTO keepers (name, age) VALUES ('ada', 36) RETURNING id)
    INSERT INTO kept SELECT id, 'cat' FROM one`);
  await other.end();
} finally {
  rmSync(folder, { recursive: true, force: true });
}
