/** A form that moves a project to another server. It shows first what prevents the move. */
import { useSignal } from '@preact/signals';
import type { Server } from '../../../src/contract/wire/servers.js';
import { ActionForm } from '../parts/action-form.js';
import { CheckboxField, SelectField } from '../parts/fields.js';
import { useLoaded } from '../parts/loaded.js';
import { size } from '../parts/formats.js';
import { goTo } from '../route.js';
import { moveProject, planMove } from './admin-api.js';

interface MoveFormProps {
  readonly project: string;
  readonly from: string;
  /** The default choice. */
  readonly to?: string | undefined;
  readonly servers: readonly Server[];
  readonly onClose: () => void;
  readonly onDone: () => void;
}

export function MoveForm({ project, from, to, servers, onClose, onDone }: MoveFormProps) {
  const others = servers.filter(({ name }) => name !== from);
  const target = useSignal(to ?? others[0]?.name ?? '');
  const verify = useSignal<'counts' | 'full'>('counts');
  const { value: plan, error } = useLoaded(() => planMove(project, target.value), target.value);
  return (
    <ActionForm
      title={`Move ${project}`}
      action="Move"
      done={`${project} moves to ${target.value}`}
      request={plan?.obstacles.length === 0 ? moveProject(project, target.value, verify.value) : null}
      onClose={onClose}
      onDone={() => {
        onDone();
        goTo('servers');
      }}
    >
      <SelectField
        label={`From ${from} to`}
        value={target.value}
        items={others.map(({ name, status }) => [name, status === 'active' ? name : `${name} (${status})`])}
        onChange={(name) => (target.value = name)}
      />
      <div role="status" aria-busy={plan === undefined && error === ''}>
        {plan === undefined && error === '' && <p class="quiet">Checking what prevents the move …</p>}
        {plan?.obstacles.length === 0 && (
          <p>Nothing prevents the move{plan.bytes !== null && `. About ${size(plan.bytes)} are copied`}.</p>
        )}
        {plan !== undefined && plan.obstacles.length > 0 && (
          <>
            <p class="bad">It cannot move there:</p>
            <ul class="obstacles">
              {plan.obstacles.map((obstacle) => (
                <li key={obstacle}>{obstacle}</li>
              ))}
            </ul>
          </>
        )}
        <p class="bad">{error}</p>
      </div>
      <p class="quiet">
        Reads continue. Writes fail with 503 while the rows are copied. If the move fails before the switch, it is
        undone, and the project stays on {from}.
      </p>
      <CheckboxField
        label="Compare the rows themselves before the switch, not only their number. Writes wait longer."
        isChecked={verify.value === 'full'}
        onChange={(isFull) => (verify.value = isFull ? 'full' : 'counts')}
      />
    </ActionForm>
  );
}
