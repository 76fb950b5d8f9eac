/** `cdp doctor`: checks everything that the service depends on, and gives advice. */
import { Command } from 'commander';
import { hasDatabase } from '../database.js';
import { counted } from '../contract/message-text.js';
import { messageOf } from '../contract/operator-message.js';
import type { Finding } from '../contract/wire/operator.js';
import { examineDisk } from '../engine/doctor/machine-findings.js';
import type { SettingName } from '../settings.js';
import { countOf, findingLines } from './findings.js';
import { managementOptions, WHERE_ELSE, withAdmin } from './management.js';
import { print, writeLines } from './terminal/output.js';
import { DATABASE_SETTINGS, readConfig } from './setting-flags.js';

const SETTINGS: readonly SettingName[] = [...DATABASE_SETTINGS, 'maxConnections'];

export function doctorCommand(): Command {
  const command = new Command('doctor').description(
    'Check the database, privileges, durability, disk, clock and projects, and suggest fixes',
  );
  return managementOptions(command, SETTINGS).action(async () => {
    const findings = await findingsOf(command);
    const [problems, warnings] = [countOf(findings, 'problem'), countOf(findings, 'warning')];
    const lines = [...findingLines(findings), `${counted(problems, 'problem')}, ${counted(warnings, 'warning')}`];
    print(command, { problems, warnings, findings }, lines, writeLines);
    if (problems > 0) process.exitCode = 1;
  });
}

async function findingsOf(command: Command): Promise<readonly Finding[]> {
  const config = readConfig(command);
  if (!(await hasDatabase(config))) return [noPostgres(`There is no database in ${config.dataDir}.`, WHERE_ELSE)];
  try {
    const { findings } = await withAdmin(
      command,
      (admin) => admin.call<{ findings: Finding[] }>('POST', 'local/doctor'),
      { opensLate: true },
    );
    return findings;
  } catch (error) {
    if (config.databaseUrl !== null) return [noPostgres(messageOf(error), CHECK_URL)];
    // A full disk is the most likely reason.
    return [noPostgres(messageOf(error), SEE_LOGS), await examineDisk(config.dataDir)];
  }
}

const SEE_LOGS = 'See postgres/control/postgres.log in the data folder.';
const CHECK_URL = 'Check DATABASE_URL: docs/operations.md, "Your own Postgres".';

const noPostgres = (found: string, advice: string): Finding => ({
  subject: 'Postgres',
  health: 'problem',
  found,
  advice,
});
