/** The schedules of the project: a list, and a form for a new one. */
import '../operate/operate.css';
import type { Schedule } from '../../../src/contract/wire/schedules.js';
import { Alert } from '../parts/announcements.js';
import { useDialog } from '../parts/dialog.js';
import { ago, dayAndTime } from '../parts/formats.js';
import { Icon } from '../parts/icon.js';
import { useLoaded } from '../parts/loaded.js';
import { Empty, Screen } from '../parts/screen.js';
import { Table } from '../parts/table.js';
import { goTo, linkTo } from '../route.js';
import type { ScreenProps } from '../screens.js';
import { currentSession } from '../session.js';
import { ScheduleForm } from './schedule-form.js';
import { outcomeOf, ScheduleView, whenOf } from './schedule-view.js';

export const SchedulesScreen = ({ path: [name] }: ScreenProps) =>
  name === undefined ? <AllSchedules /> : <ScheduleView key={name} name={name} />;

const REFRESH_MS = 10_000;

function AllSchedules() {
  const { value: schedules, error } = useLoaded(() => currentSession().client.schedules(), '', REFRESH_MS);
  const { dialog, open } = useDialog();
  const create = () =>
    open((close) => <ScheduleForm schedule={null} onClose={close} onDone={({ name }) => goTo('schedules', name)} />);
  return (
    <Screen
      title="Schedules"
      about={schedules?.length ? 'SQL that the service runs by itself, also while nobody uses the project.' : undefined}
      isBusy={schedules === undefined && error === ''}
      actions={
        <button type="button" class="button is-primary" onClick={create}>
          <Icon name="plus" />
          New schedule
        </button>
      }
    >
      <Alert>{error}</Alert>
      {schedules?.length === 0 && (
        <Empty title="No schedules yet">
          A schedule runs SQL every night, or every 15 minutes: it deletes old rows, or refreshes a materialized view.
        </Empty>
      )}
      {schedules !== undefined && schedules.length > 0 && <ScheduleTable schedules={schedules} />}
      {dialog}
    </Screen>
  );
}

const ScheduleTable = ({ schedules }: { schedules: readonly Schedule[] }) => (
  <Table
    label="List of schedules"
    rows={schedules}
    keyOf={({ name }) => name}
    classOf={({ last_run: last }) => (last !== null && last.error !== null ? 'is-over' : '')}
    columns={[
      { title: 'Name', cells: 'is-text', cell: ({ name }) => <a href={linkTo('schedules', name)}>{name}</a> },
      { title: 'When', cells: 'is-text mono', cell: whenOf },
      {
        title: 'Next run',
        class: 'wide-only',
        cell: ({ next_run_at: next }) => (next === null ? 'paused' : <time dateTime={next}>{dayAndTime(next)}</time>),
      },
      {
        title: 'Last run',
        cell: ({ last_run: last }) =>
          last !== null && <time dateTime={last.started_at}>{ago(Date.parse(last.started_at))}</time>,
      },
      { title: 'Outcome', cells: 'is-text', cell: ({ last_run: last }) => last && outcomeOf(last) },
    ]}
  />
);
