/** Metrics of the Postgres port, if it is on: sessions, bytes and refused logins. */
import { Counter, Gauge, type Registry } from 'prom-client';
import type { Sessions } from '../../engine/sessions/sessions.js';

export function sessionMetrics(sessions: Sessions, registers: Registry[]): void {
  new Gauge({
    name: 'cdp_pg_sessions',
    help: 'Open sessions of Postgres clients.',
    labelNames: ['user'],
    registers,
    collect() {
      for (const [user, count] of Object.entries(sessions.load.sessions)) this.set({ user }, count);
    },
  });
  new Counter({
    name: 'cdp_pg_bytes_total',
    help: 'Bytes received from Postgres clients, and sent to them, in sessions.',
    labelNames: ['direction'],
    registers,
    collect() {
      const { received, sent } = sessions.load;
      this.reset();
      this.inc({ direction: 'received' }, received);
      this.inc({ direction: 'sent' }, sent);
    },
  });
  new Counter({
    name: 'cdp_pg_logins_refused_total',
    help: 'Logins of Postgres clients that were refused, by reason.',
    labelNames: ['reason'],
    registers,
    collect() {
      this.reset();
      for (const [reason, count] of sessions.refused) this.inc({ reason }, count);
    },
  });
  new Counter({
    name: 'cdp_pg_sessions_ended_total',
    help: 'Sessions of Postgres clients that the service or Postgres ended, by reason.',
    labelNames: ['reason'],
    registers,
    collect() {
      this.reset();
      for (const [reason, count] of sessions.ended) this.inc({ reason }, count);
    },
  });
}
