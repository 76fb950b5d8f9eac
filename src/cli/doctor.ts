/** `cdp doctor`: looks at everything the service depends on and says what to do about what is wrong. */
import { Command } from 'commander';
import { pino } from 'pino';
import { type Database, openDatabase } from '../database.js';
import {
  examineDisk,
  examineLibxml,
  examineLimits,
  examineProjects,
  examineServer,
  type Finding,
  type Health,
  isCurrent,
  problem,
  tryEverything,
} from '../engine/doctor.js';
import { serverFacts } from '../tenancy/server-facts.js';
import { openEngine } from '../service.js';
import type { Config, SettingName } from '../settings.js';
import { messageOf } from '../operator-message.js';
import { aligned, commandLine, hasDatabase, managementOptions, print, WHERE_ELSE } from './management.js';
import { DATABASE_SETTINGS, readConfig } from './settings.js';

const SETTINGS: readonly SettingName[] = [...DATABASE_SETTINGS, 'maxConnections'];

const MARKS: Readonly<Record<Health, string>> = { ok: 'ok', warning: 'WARNING', problem: 'PROBLEM' };

export function doctorCommand(): Command {
  const command = new Command('doctor').description(
    'Look at database, rights, durability, disk, clock and projects, try everything once, and say what to do',
  );
  return managementOptions(command, SETTINGS).action(async () => {
    const findings = await examine(readConfig(command));
    const count = (health: Health) => findings.filter((finding) => finding.health === health).length;
    const [problems, warnings] = [count('problem'), count('warning')];
    const rows = aligned(findings.map(({ health, subject, found }) => [MARKS[health], subject, found]));
    const lines = findings.flatMap(({ advice }, i) => [
      rows[i] ?? '',
      ...(advice === null ? [] : [`    -> ${advice}`]),
    ]);
    print(command, { problems, warnings, findings }, [...lines, `${problems} problems, ${warnings} warnings`]);
    if (problems > 0) process.exitCode = 1;
  });
}

async function examine(config: Config): Promise<Finding[]> {
  if (!(await hasDatabase(config))) {
    return [problem('Postgres', `There is no database in ${config.dataDir}.`, WHERE_ELSE)];
  }
  const logger = pino({ level: 'silent' });
  let database: Database;
  try {
    database = await openDatabase(config, logger);
  } catch (error) {
    return [problem('Postgres', messageOf(error), 'See postgres/postgres.log in the data folder.')];
  }
  const findings: Finding[] = [];
  try {
    const facts = await serverFacts(database.address);
    findings.push(...examineServer(facts, database.connections));
    if (database.embedded !== null) {
      const { pid } = database.embedded.control;
      findings.push(await examineDisk(config.dataDir), ...(await examineLimits(pid)), ...(await examineLibxml(pid)));
    }
    // Opening the engine would bring the schema up to date, and an older service may be using it.
    if (isCurrent(facts)) findings.push(...(await examineInstallation(config, database)));
  } catch (error) {
    findings.push(
      problem('Postgres', messageOf(error), 'Look at DATABASE_URL, pg_hba.conf and the log of the server.'),
    );
  } finally {
    await database.close();
  }
  return findings;
}

async function examineInstallation(config: Config, database: Database): Promise<Finding[]> {
  const findings: Finding[] = [];
  try {
    const engine = await openEngine(config, database, pino({ level: 'silent' }));
    try {
      findings.push(...(await examineProjects(engine)), await tryEverything(engine, commandLine()));
    } finally {
      await engine.close();
    }
  } catch (error) {
    findings.push(problem('trial', messageOf(error), 'docs/errors.md says what a code means; the log says more.'));
  }
  return findings;
}
