/** The schedules of the project: a list, and a form for a new one. */
import '../operate/operate.css';
import { Alert } from '../parts/announcements.js';
import { useDialog } from '../parts/dialog.js';
import { Icon } from '../parts/icon.js';
import { useLoaded } from '../parts/loaded.js';
import { Empty, Screen } from '../parts/screen.js';
import { goTo } from '../route.js';
import type { ScreenProps } from '../screens.js';
import { currentSession } from '../session.js';
import { ScheduleForm } from './schedule-form.js';
import { ScheduleView } from './schedule-view.js';
import { TimedTable } from './timed-view.js';

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
      {schedules !== undefined && schedules.length > 0 && <TimedTable words="schedules" all={schedules} />}
      {dialog}
    </Screen>
  );
}
