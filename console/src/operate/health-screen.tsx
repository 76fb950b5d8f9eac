/** How the service does: small charts of its metrics for as long as the page is open. */
import './operate.css';
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { count, duration, size } from '../parts/numbers.js';
import { type Look, look, OF_API, quantile, rate, total } from './metrics.js';
import { Sparkline } from './sparkline.js';

const EVERY_MS = 2_000;
/** Five minutes. */
const ROOM = 150;
/** The 99th percentile of fewer would jump. */
const WINDOW = 15;

const REQUESTS = 'cdp_http_requests_total';
const SERVER_ERROR = /route="\/api\/.*status="5/;

const perSecond = (value: number): string =>
  `${value === 0 || value >= 10 ? count(Math.round(value)) : value.toFixed(1)}/s`;

export function HealthScreen() {
  const looks = useSignal<readonly Look[]>([]);
  const error = useSignal('');
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isOver = false;
    const next = async () => {
      try {
        const taken = await look();
        looks.value = [...looks.value.slice(-ROOM), taken];
        error.value = '';
      } catch (thrown) {
        error.value = thrown instanceof Error ? thrown.message : String(thrown);
      }
      if (!isOver) timer = setTimeout(() => void next(), EVERY_MS);
    };
    void next();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, []);

  const seen = looks.value;
  const between = <T,>(value: (before: Look, after: Look, i: number) => T): T[] =>
    seen.slice(1).map((after, i) => value(seen[i] as Look, after, i + 1));
  const now = (name: string) => seen.map((each) => total(each, name) ?? null);
  const last = seen.at(-1);
  const isUp = last === undefined ? undefined : total(last, 'cdp_postgres_up') === 1;
  return (
    <main class="operate" tabIndex={0} aria-busy={last === undefined && error.value === ''}>
      <header class="operate-head">
        <div>
          <h1>Health</h1>
          <p class="quiet">The last five minutes of this instance, as long as this page is open</p>
        </div>
        {isUp !== undefined && (
          <span class="status" data-status={isUp ? 'active' : 'down'}>
            {isUp ? 'Postgres responds' : 'Postgres does not respond'}
          </span>
        )}
      </header>
      <p class="bad" role="alert">
        {error.value}
      </p>
      {last === undefined && error.value !== '' && (
        <p class="quiet">
          The charts come from <code>/metrics</code>. A proxy in front of the service may keep it to itself; Prometheus
          and the dashboard of the package show the same and keep it.
        </p>
      )}
      <div class="charts">
        <Sparkline
          label="Requests"
          values={between((before, after) => rate(before, after, REQUESTS, OF_API))}
          room={ROOM}
          format={perSecond}
          hint="All API requests, including refused ones"
        />
        <Sparkline
          label="Server errors"
          values={between((before, after) => rate(before, after, REQUESTS, SERVER_ERROR))}
          room={ROOM}
          format={perSecond}
          hint="Responses with a status of 500 or more"
        />
        <Sparkline
          label="Response time, p99"
          values={between((_before, after, i) => {
            const before = seen[Math.max(0, i - WINDOW)] as Look;
            const seconds = quantile(before, after, 'cdp_http_request_duration_seconds', 0.99);
            return seconds === null ? null : seconds * 1_000;
          })}
          room={ROOM}
          format={duration}
          hint="99 of 100 requests of the last 30 s were faster"
        />
        <Sparkline
          label="Rows inserted"
          values={between((before, after) => rate(before, after, 'cdp_inserted_rows_total'))}
          room={ROOM}
          format={perSecond}
          hint="By batches, in all projects"
        />
        <Sparkline
          label="Running in Postgres"
          values={now('cdp_requests_running')}
          room={ROOM}
          format={count}
          hint="Requests that hold a slot; the others wait"
        />
        <Sparkline
          label="Running servers"
          values={now('cdp_project_servers_running')}
          room={ROOM}
          format={count}
          hint="Postgres servers of projects; they stop when idle"
        />
        <Sparkline
          label="Connections"
          values={now('cdp_project_connections')}
          room={ROOM}
          format={count}
          hint="Open to projects’ databases"
        />
        <Sparkline
          label="Memory"
          values={now('process_resident_memory_bytes')}
          room={ROOM}
          format={size}
          hint="Of the service itself, without its Postgres servers"
        />
      </div>
    </main>
  );
}
