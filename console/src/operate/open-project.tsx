/** Opens a project in the console: the admin makes a token for it that expires soon, and uses it in this tab. */
import { useMemo } from 'preact/hooks';
import { DEFAULT_SCOPES } from '../../../src/contract/names.js';
import type { Project } from '../../../src/contract/wire/projects.js';
import type { CreateTokenResponse } from '../../../src/contract/wire/tokens.js';
import { ActionForm } from '../parts/action-form.js';
import { send } from '../parts/api-request.js';
import { goTo } from '../route.js';
import { currentSession, openProject } from '../session.js';
import { createToken } from './admin-api.js';

const LIFETIME_MS = 3_600_000;

export function OpenProject({ project: { name }, onClose }: { project: Project; onClose: () => void }) {
  const request = useMemo(() => {
    const by = currentSession().tokenName;
    const expiresAt = new Date(Date.now() + LIFETIME_MS).toISOString();
    const token = { scopes: DEFAULT_SCOPES, role: '', limits: null, expiresAt };
    return createToken(name, { ...token, name: `console of ${by || 'an admin'}`.slice(0, 200) });
  }, [name]);
  const open = async () => {
    await openProject((await send<CreateTokenResponse>(request)).token);
    goTo('tables');
  };
  return (
    <ActionForm
      title={`Open ${name}`}
      action="Open"
      done={`Project ${name} is open for an hour`}
      request={request}
      run={open}
      onClose={onClose}
      onDone={() => {}}
    >
      <p>
        This creates a token that may do everything in the project except erase people, and expires after an hour. The
        audit log shows it, and what is done with it. Only this tab has it. The menu at the project&rsquo;s name returns
        to this session.
      </p>
    </ActionForm>
  );
}
