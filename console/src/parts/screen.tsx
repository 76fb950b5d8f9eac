/** The frame of a screen: its heading, actions and content. */
import type { ComponentChildren } from 'preact';

interface ScreenProps {
  readonly title: ComponentChildren;
  /** Below the title. */
  readonly about?: ComponentChildren;
  readonly actions?: ComponentChildren;
  readonly isBusy: boolean;
  readonly isWide?: boolean;
  /** Takes the focus itself, because nothing in it does, so that keys can scroll it. */
  readonly isFocusable?: boolean;
  readonly children: ComponentChildren;
}

export const Screen = ({ title, about, actions, isBusy, isWide, isFocusable, children }: ScreenProps) => (
  <main class={isWide ? 'operate is-wide' : 'operate'} tabIndex={isFocusable ? 0 : undefined} aria-busy={isBusy}>
    <header class="operate-head">
      <div>
        <h1>{title}</h1>
        {about !== undefined && <p class="quiet">{about}</p>}
      </div>
      {actions}
    </header>
    {children}
  </main>
);

export const Empty = ({ title, children }: { title: string; children?: ComponentChildren }) => (
  <div class="empty">
    <h2>{title}</h2>
    {children !== undefined && <p>{children}</p>}
  </div>
);

/** @param props.load null: there are no more */
export const More = ({ label, load }: { label: string; load: (() => void) | null }) =>
  load !== null && (
    <div class="more">
      <button type="button" class="button" onClick={load}>
        {label}
      </button>
    </div>
  );
