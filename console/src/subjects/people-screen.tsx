/** People in the project: where they are, finding them, handing over what there is about them, and erasing them. */
import '../operate/operate.css';
import './people.css';
import { Alert } from '../parts/announcements.js';
import { useDialog } from '../parts/dialog.js';
import { useLoaded } from '../parts/loaded.js';
import { Empty, Screen } from '../parts/screen.js';
import type { ScreenProps } from '../screens.js';
import { currentSession, hasScope } from '../session.js';
import { Coverage } from './coverage.js';
import { DeclareForm } from './declare-form.js';
import { ErasureView, Erasures } from './erasures.js';
import { FindPerson } from './find-person.js';

export const PeopleScreen = ({ path: [part, id] }: ScreenProps) =>
  part === 'erasures' && id !== undefined ? <ErasureView key={id} id={id} /> : <People />;

function People() {
  const { value: state, error, reload } = useLoaded(() => currentSession().client.subjects(), '');
  const { dialog, open } = useDialog();
  const declaration = state?.subjects ?? null;
  const declare = () =>
    open((close) => <DeclareForm declaration={declaration} onClose={close} onDone={() => void reload()} />);
  return (
    <Screen
      title="People"
      about={declaration === null ? undefined : 'Find, hand over and erase what the project keeps about a person.'}
      isBusy={state === undefined && error === ''}
      actions={
        state !== undefined &&
        hasScope('schema:write') && (
          <button type="button" class={declaration === null ? 'button is-primary' : 'button'} onClick={declare}>
            {declaration === null ? 'Declare where people are' : 'Change the declaration'}
          </button>
        )
      }
    >
      <Alert>{error}</Alert>
      {state !== undefined && declaration === null && (
        <Empty title="Nothing is declared">
          Declare which columns identify people, and what erasing them means. Then you can find, hand over and erase
          what the project keeps about somebody.
        </Empty>
      )}
      {declaration !== null && hasScope('sql:read') && <FindPerson declaration={declaration} />}
      {hasScope('subjects:erase') && <Erasures />}
      {state !== undefined && <Coverage state={state} />}
      {dialog}
    </Screen>
  );
}
