/** The segments of the project: a list, and a form for a new one. */
import '../operate/operate.css';
import { Alert } from '../parts/announcements.js';
import { useDialog } from '../parts/dialog.js';
import { Icon } from '../parts/icon.js';
import { useLoaded } from '../parts/loaded.js';
import { Empty, Screen } from '../parts/screen.js';
import { goTo } from '../route.js';
import { TimedTable } from '../schedules/timed-view.js';
import type { ScreenProps } from '../screens.js';
import { currentSession } from '../session.js';
import { SegmentForm } from './segment-form.js';
import { SegmentView } from './segment-view.js';

export const SegmentsScreen = ({ path: [name] }: ScreenProps) =>
  name === undefined ? <AllSegments /> : <SegmentView key={name} name={name} />;

const REFRESH_MS = 10_000;

function AllSegments() {
  const { value: segments, error } = useLoaded(() => currentSession().client.segments.list(), '', REFRESH_MS);
  const { dialog, open } = useDialog();
  const create = () =>
    open((close) => <SegmentForm segment={null} onClose={close} onDone={({ name }) => goTo('segments', name)} />);
  return (
    <Screen
      title="Segments"
      about={
        segments?.length ? 'Keys that a query yields, kept as members, with who enters and who leaves.' : undefined
      }
      isBusy={segments === undefined && error === ''}
      actions={
        <button type="button" class="button is-primary" onClick={create}>
          <Icon name="plus" />
          New segment
        </button>
      }
    >
      <Alert>{error}</Alert>
      {segments?.length === 0 && (
        <Empty title="No segments yet">
          A segment is a query that yields keys. At its times, the service finds who has entered and who has left.
        </Empty>
      )}
      {segments !== undefined && segments.length > 0 && <TimedTable words="segments" all={segments} />}
      {dialog}
    </Screen>
  );
}
