/** Metrics of the Postgres port, if it is on: sessions, bytes and refused logins. */
import { Counter, Gauge, type Registry } from 'prom-client';
import type { Sessions } from '../../engine/sessions/sessions.js';
import { series } from './series.js';

export function sessionMetrics(sessions: Sessions, registers: Registry[]): void {
  series(registers, Gauge, 'cdp_pg_sessions', 'Open sessions of Postgres clients.', ['user'], () =>
    Object.entries(sessions.load.sessions).map(([user, count]) => [{ user }, count]),
  );
  const bytesHelp = 'Bytes received from Postgres clients, and sent to them, in sessions.';
  series(registers, Counter, 'cdp_pg_bytes_total', bytesHelp, ['direction'], () => {
    const { received, sent } = sessions.load;
    return [
      [{ direction: 'received' }, received],
      [{ direction: 'sent' }, sent],
    ];
  });
  const byReason = (name: string, help: string, counts: ReadonlyMap<string, number>) =>
    series(registers, Counter, name, help, ['reason'], () => [...counts].map(([reason, count]) => [{ reason }, count]));
  const refusedHelp = 'Logins of Postgres clients that were refused, by reason.';
  byReason('cdp_pg_logins_refused_total', refusedHelp, sessions.refused);
  const endedHelp = 'Sessions of Postgres clients that the service or Postgres ended, by reason.';
  byReason('cdp_pg_sessions_ended_total', endedHelp, sessions.ended);
}
