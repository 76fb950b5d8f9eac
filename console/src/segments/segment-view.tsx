/** One segment: who is in it, who has entered and left, and how it runs. */
import { useSignal } from '@preact/signals';
import { CdpError, type Member } from '../../../src/client/index.js';
import type { RunScheduleResponse } from '../../../src/contract/wire/schedules.js';
import type { DetailedSegment } from '../../../src/contract/wire/segments.js';
import { ActionForm } from '../parts/action-form.js';
import { Alert } from '../parts/announcements.js';
import { send } from '../parts/api-request.js';
import { count, counted, dayAndTime } from '../parts/formats.js';
import { useLoaded } from '../parts/loaded.js';
import { Table } from '../parts/table.js';
import { linkToQuery } from '../route.js';
import { Fact, TimedView } from '../schedules/timed-view.js';
import { currentSession, hasScope } from '../session.js';
import { SegmentForm } from './segment-form.js';

const REFRESH_MS = 5_000;

/** As many as the page shows of members, and of changes. */
const SHOWN = 50;

export function SegmentView({ name }: { name: string }) {
  const loaded = useLoaded(() => currentSession().client.segments.get(name), '', REFRESH_MS);
  const done = () => void loaded.reload();
  return (
    <TimedView
      name={name}
      word="segment"
      loaded={loaded}
      unit="Changes"
      runForm={(close) => <RunForm name={name} onClose={close} onDone={done} />}
      changeForm={(of, close) => <SegmentForm segment={of} onClose={close} onDone={done} />}
      deleted="Its members and runs are deleted with it. What has changed before stays in segment_changes."
      facts={({ max_change: most }) => (
        <Fact title="A run may change">{most === null ? 'any number of members' : `${most} % of the members`}</Fact>
      )}
      more={(of) => (hasRun(of) ? <Contents key={of.runs[0]?.id} name={name} /> : null)}
    />
  );
}

/** The first run makes the tables. */
const hasRun = ({ runs }: DetailedSegment): boolean => runs.some(({ outcome }) => outcome === 'ok');

interface RunFormProps {
  name: string;
  onClose: () => void;
  onDone: () => void;
}

/** If the guard refuses the run, the same form offers to run it anyway. */
function RunForm({ name, onClose, onDone }: RunFormProps) {
  const isForced = useSignal(false);
  const path = `/api/cdp/segments/${name}/run`;
  const request = { method: 'POST', path: isForced.value ? `${path}?force=true` : path } as const;
  const run = async () => {
    try {
      return await send<RunScheduleResponse>(request);
    } catch (error) {
      if (error instanceof CdpError && error.message.includes('max_change')) isForced.value = true;
      onDone();
      throw error;
    }
  };
  return (
    <ActionForm<RunScheduleResponse>
      title={`Run ${name} now`}
      action={isForced.value ? 'Run anyway' : 'Run'}
      done={({ run: ended }) =>
        ended?.ended_at == null ? 'The run goes on' : `It has run: ${counted(ended.rows ?? 0, 'change')}`
      }
      isDangerous={isForced.value}
      request={request}
      run={run}
      onClose={onClose}
      onDone={onDone}
    />
  );
}

interface Change {
  readonly id: number;
  readonly key: string;
  readonly change: string;
  readonly at: string;
}

const CHANGES = 'SELECT id, key, change, at FROM segment_changes WHERE segment = $1 ORDER BY id DESC';

const COUNT = 'SELECT count(*) AS n FROM segment_members WHERE segment = $1';

const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`;

function Contents({ name }: { name: string }) {
  const { value, error } = useLoaded(() => contentsOf(name), '');
  const members = `SELECT key, entered_at FROM segment_members WHERE segment = ${literal(name)} ORDER BY key`;
  return (
    <>
      <Alert>{error}</Alert>
      <section aria-labelledby="members-title">
        <h2 id="members-title">Members{value !== undefined && `: ${count(value.count)}`}</h2>
        {value?.members.length === 0 && <p class="quiet">It has none.</p>}
        {value !== undefined && value.members.length > 0 && (
          <Table
            label="List of members"
            rows={value.members}
            keyOf={({ key }) => key}
            columns={[
              { title: 'Key', cells: 'is-text mono', cell: ({ key }) => key },
              { title: 'Entered', cell: ({ entered_at: at }) => <time dateTime={at}>{dayAndTime(at)}</time> },
            ]}
          />
        )}
        {value !== undefined && (
          <p class="quiet">
            {value.isMore && `The first ${SHOWN}. `}
            <a href={linkToQuery(members, `${name} members`)}>All of them in SQL</a>
          </p>
        )}
      </section>
      <section aria-labelledby="changes-title">
        <h2 id="changes-title">Last changes</h2>
        {value !== undefined && (
          <Table
            label="List of changes"
            rows={value.changes}
            keyOf={({ id }) => String(id)}
            columns={[
              { title: 'When', cell: ({ at }) => <time dateTime={at}>{dayAndTime(at)}</time> },
              { title: 'Change', cell: ({ change }) => change },
              { title: 'Key', cells: 'is-text mono', cell: ({ key }) => key },
            ]}
          />
        )}
      </section>
    </>
  );
}

interface ContentsOf {
  readonly count: number;
  readonly members: Member[];
  readonly isMore: boolean;
  readonly changes: Change[];
}

async function contentsOf(name: string): Promise<ContentsOf> {
  const { client } = currentSession();
  const members: Member[] = [];
  for await (const member of client.segments.members(name)) {
    members.push(member);
    if (members.length > SHOWN) break;
  }
  const options = { read_only: hasScope('sql:read'), max_rows: SHOWN };
  const [{ rows: changes }, { rows: counted }] = await Promise.all([
    client.query<Change>(CHANGES, [name], options),
    client.query<{ n: number }>(COUNT, [name], options),
  ]);
  return {
    count: counted[0]?.n ?? 0,
    members: members.slice(0, SHOWN),
    isMore: members.length > SHOWN,
    changes,
  };
}
