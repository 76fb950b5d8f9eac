/**
 * What an installation leaves behind on a server that other tests use too: every placement that it creates is recorded.
 */
import { onServer } from './service.js';
import type { TestServer } from './postgres.js';

/** Begins to write down the placements that are made; to be called once for a control database. */
export async function watchPlacements(server: TestServer, control: string): Promise<void> {
  await onServer(
    server,
    (client) =>
      client.query(`CREATE TABLE public.made (database text, writer text, reader text);
        CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
          INSERT INTO public.made VALUES (NEW.database_name, NEW.writer_role, NEW.reader_role); RETURN NEW; END $$;
        CREATE TRIGGER note AFTER INSERT ON cdp.projects FOR EACH ROW EXECUTE FUNCTION public.note();
        INSERT INTO public.made SELECT database_name, writer_role, reader_role FROM cdp.projects`),
    control,
  );
}

/** Databases and roles that belong to no project any more, and roles of dumps. */
export async function strays(server: TestServer, control: string): Promise<string[]> {
  return onServer(
    server,
    async (client) => {
      const { rows } = await client.query<{ name: string }>(
        `WITH gone AS (SELECT * FROM public.made WHERE database NOT IN (SELECT database_name FROM cdp.projects)),
           names AS (SELECT unnest(ARRAY[database, writer, reader]) FROM gone
             UNION SELECT 'b_' || substr(writer, 3) FROM public.made)
         SELECT datname::text AS name FROM pg_database WHERE datname IN (SELECT * FROM names)
         UNION SELECT rolname::text FROM pg_roles WHERE rolname IN (SELECT * FROM names)`,
      );
      return rows.map(({ name }) => name);
    },
    control,
  );
}
