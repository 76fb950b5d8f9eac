/** One schedule. */
import type { RunScheduleResponse } from '../../../src/contract/wire/schedules.js';
import { ActionForm } from '../parts/action-form.js';
import { counted } from '../parts/formats.js';
import { useLoaded } from '../parts/loaded.js';
import { currentSession } from '../session.js';
import { ScheduleForm } from './schedule-form.js';
import { Fact, TimedView } from './timed-view.js';

const REFRESH_MS = 5_000;

export function ScheduleView({ name }: { name: string }) {
  const loaded = useLoaded(() => currentSession().client.schedule(name), '', REFRESH_MS);
  const done = () => void loaded.reload();
  return (
    <TimedView
      name={name}
      word="schedule"
      loaded={loaded}
      unit="Rows"
      runForm={(close) => (
        <ActionForm<RunScheduleResponse>
          title={`Run ${name} now`}
          action="Run"
          done={({ run }) =>
            run?.ended_at == null ? 'The run goes on' : `It has run: ${counted(run.rows ?? 0, 'row')}`
          }
          request={{ method: 'POST', path: `/api/cdp/schedules/${name}/run` }}
          onClose={close}
          onDone={done}
        />
      )}
      changeForm={(of, close) => <ScheduleForm schedule={of} onClose={close} onDone={done} />}
      deleted="Its runs are deleted with it. One that has not ended is canceled."
      facts={({ role }) => <Fact title="Runs as">{role ?? 'the writer'}</Fact>}
    />
  );
}
