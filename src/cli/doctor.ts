/** `cdp doctor`: looks at everything the service depends on and says what to do about what is wrong. */
import { Command } from 'commander';
import { messageOf } from '../contract/operator-message.js';
import type { Finding, Health } from '../contract/wire/operator.js';
import type { SettingName } from '../settings.js';
import { aligned, hasDatabase, managementOptions, print, WHERE_ELSE, withAdmin } from './management.js';
import { printable } from './remote/terminal-text.js';
import { DATABASE_SETTINGS, readConfig } from './settings.js';

const SETTINGS: readonly SettingName[] = [...DATABASE_SETTINGS, 'maxConnections'];

const MARKS: Readonly<Record<Health, string>> = { ok: 'ok', warning: 'WARNING', problem: 'PROBLEM' };

export function doctorCommand(): Command {
  const command = new Command('doctor').description(
    'Look at database, rights, durability, disk, clock and projects, try everything once, and say what to do',
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
      { isDoctor: true },
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
