/** The menu at the project's name: other tokens that this browser keeps, and the admin's session that has opened it. */
import { isKept, type KeptToken, keptTokens } from '../kept-tokens.js';
import { say } from '../parts/announcements.js';
import { Notice, useDialog } from '../parts/dialog.js';
import { Icon } from '../parts/icon.js';
import { KeptTokens, WHAT_KEEPING_MEANS } from '../parts/kept-token-list.js';
import { explain } from '../parts/loaded.js';
import { Menu } from '../parts/menu.js';
import { goTo } from '../route.js';
import { currentSession, enter, keepToken, labelOf, nameOf, returnToOpener, type Session } from '../session.js';

export function ProjectMenu() {
  const session = currentSession();
  const { opener } = session;
  const { dialog, open } = useDialog();
  const others = keptTokens.value.filter(({ token }) => token !== session.token && token !== opener?.token);
  const goBack = () => {
    returnToOpener();
    goTo('projects');
  };
  return (
    <>
      <div class="bar-project">
        <Menu
          label="Projects"
          title={whoseToken(session)}
          items={[
            ...(opener === null ? [] : [{ label: `Back to ${labelOf(opener)}`, run: goBack }]),
            ...others.map((kept) => ({ label: kept.label, hint: 'switch', run: () => void change(kept) })),
            {
              label: 'Kept tokens …',
              run: () => open((close) => <KeptTokensDialog onClose={close} canKeep={opener === null} />),
            },
          ]}
        >
          <Icon name="database" />
          <span class="bar-name">{nameOf(session)}</span>
          <Icon name="down" />
        </Menu>
      </div>
      {dialog}
    </>
  );
}

function whoseToken({ project, role }: Session): string {
  if (project === null) return 'Admin token';
  return role === null ? `Project ${project.name}` : `Project ${project.name}, as the role ${role}`;
}

/** A token that is refused is forgotten, and the session stays as it is. */
async function change({ token, label }: KeptToken): Promise<void> {
  try {
    await enter(token, 'tab');
    location.hash = '#/';
  } catch (thrown) {
    const isForgotten = !isKept(token);
    say(isForgotten ? `${label}: the token is no longer valid, and was removed from this browser` : explain(thrown));
  }
}

/** @param props.canKeep whether the token of the session is one to keep */
function KeptTokensDialog({ onClose, canKeep }: { onClose: () => void; canKeep: boolean }) {
  const session = currentSession();
  return (
    <Notice title="Tokens in this browser" onClose={onClose}>
      <p>A kept token opens its project without typing it again. {WHAT_KEEPING_MEANS}</p>
      {canKeep && !isKept(session.token) && (
        <p>
          <button type="button" class="button" onClick={keepToken}>
            Keep this token in this browser
          </button>
        </p>
      )}
      {!canKeep && <p>The token of this session expires within an hour, and is not kept.</p>}
      <KeptTokens />
    </Notice>
  );
}
