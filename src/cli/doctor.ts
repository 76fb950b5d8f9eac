/** `cdp doctor`: checks everything the service depends on, and gives advice on what is wrong. */
import { Command } from 'commander';
import { hasDatabase } from '../admin-session.js';
import { messageOf } from '../contract/operator-message.js';
import type { Finding, Health } from '../contract/wire/operator.js';
import type { SettingName } from '../settings.js';
import { aligned } from './terminal/grid.js';
import { printable } from './terminal/text.js';
import { managementOptions, WHERE_ELSE, withAdmin } from './management.js';
import { print } from './terminal/output.js';
import { DATABASE_SETTINGS, readConfig } from './setting-flags.js';

const SETTINGS: readonly SettingName[] = [...DATABASE_SETTINGS, 'maxConnections'];

const MARKS: Readonly<Record<Health, string>> = { ok: 'ok', warning: 'WARNING', problem: 'PROBLEM' };

export function doctorCommand(): Command {
  const command = new Command('doctor').description(
    'Check the database, privileges, durability, disk, clock and projects, and suggest fixes',
  );
  return managementOptions(command, SETTINGS).action(async () => {
    const findings = await findingsOf(command);
    const count = (health: Health) => findings.filter((finding) => finding.health === health).length;
    const [problems, warnings] = [count('problem'), count('warning')];
    const rows = aligned(findings.map(({ health, subject, found }) => [MARKS[health], subject, found]));
    const lines = findings.flatMap(({ advice }, i) => [
      rows[i] ?? '',
      ...(advice === null ? [] : [`    -> ${printable(advice)}`]),
    ]);
    print(command, { problems, warnings, findings }, [...lines, `${problems} problems, ${warnings} warnings`]);
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
    return [noPostgres(messageOf(error), 'See postgres/postgres.log in the data folder.')];
  }
}

const noPostgres = (found: string, advice: string): Finding => ({
  subject: 'Postgres',
  health: 'problem',
  found,
  advice,
});
