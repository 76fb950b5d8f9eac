/**
 * The ledger of erasures in a backup folder, a file for each: a machine that comes back from the folder must know whom to erase
 * again. Their keys are there only encrypted under the secret, which no backup has.
 */
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Static, Type } from '../../contract/schema.js';
import { describes } from '../../contract/validator.js';
import { namesIn, replaceFile } from '../../files.js';
import type { ControlDatabase } from '../../tenancy/control/control.js';
import type { KeyRow, LedgerEntry } from '../../tenancy/control/subject-rows.js';
import { parseJson } from '../manifest.js';
import { ownEpoch, readEpoch, requireCurrent } from './epoch.js';

/** In the folder. */
export const LEDGER_FOLDER = 'erasures';

const Uuid = Type.String({ pattern: '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' });

const EntryFile = Type.Object({
  id: Uuid,
  lineage: Uuid,
  project_id: Uuid,
  project: Type.String(),
  server: Type.String(),
  kind: Type.String(),
  erased_at: Type.Nullable(Type.String({ format: 'date-time' })),
  ledger: Type.Object({
    key: Type.String(),
    declaration: Type.Object({ identifiers: Type.Object({}), tables: Type.Object({}) }),
    hashes: Type.Record(Type.Array(Type.String())),
  }),
});

const KeyFile = Type.Object({ key: Type.String({ pattern: '^[0-9a-f]{1,64}$' }), wrapped: Type.String() });

const isEntry = describes(EntryFile);
const isKey = describes(KeyFile);

/**
 * Writes what the folder lacks of the ledger. Does nothing if nothing has been saved there, or by another installation.
 * @throws RestoredElsewhere; the system's error
 */
export async function saveLedger({ control }: { readonly control: ControlDatabase }, folder: string): Promise<void> {
  const found = await readEpoch(folder);
  if (found === null) return;
  const own = await ownEpoch({ control });
  requireCurrent(folder, own, found);
  if (found.installation !== own.installation) return;
  const entries = await control.subjects.wholeLedger();
  if (entries.length === 0) return;
  const place = join(folder, LEDGER_FOLDER);
  await mkdir(place, { recursive: true, mode: 0o700 });
  const there = new Set(await namesIn(place));
  const write = async (name: string, content: object): Promise<void> => {
    if (!there.has(name)) await replaceFile(join(place, name), `${JSON.stringify(content)}\n`, 0o600);
  };
  for (const { id, wrapped } of await control.subjects.keys('ledger'))
    await write(`key-${id}.json`, { key: id, wrapped });
  for (const { id, lineage, projectId, project, server, kind, erasedAt, ledger } of entries) {
    const file: Static<typeof EntryFile> = {
      ...{ id, lineage, project_id: projectId, project, server, kind, erased_at: erasedAt?.toISOString() ?? null },
      ledger: ledger as unknown as Static<typeof EntryFile>['ledger'],
    };
    await write(`${id}.json`, file);
  }
}

/** @throws Error naming a file that is damaged */
export async function readLedger(folder: string): Promise<{ entries: LedgerEntry[]; keys: KeyRow[] }> {
  const place = join(folder, LEDGER_FOLDER);
  const [entries, keys]: [LedgerEntry[], KeyRow[]] = [[], []];
  for (const name of (await namesIn(place)).filter((one) => one.endsWith('.json'))) {
    const value = parseJson(await readFile(join(place, name)));
    if (isKey(value)) keys.push({ id: value.key, purpose: 'ledger', wrapped: value.wrapped, publicKey: null });
    else if (isEntry(value)) {
      const { project_id: projectId, erased_at: erasedAt, ledger, ...entry } = value;
      entries.push({
        ...entry,
        projectId,
        ledger,
        erasedAt: erasedAt === null ? null : new Date(erasedAt),
      });
    } else throw new Error(`${join(place, name)} is damaged: without it, erased people could come back`);
  }
  return { entries, keys };
}
