/** The tabs of the editor, followed by actions for the current one. */
import type { Signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { Icon, IconButton } from '../parts/icon.js';
import { closeTab, currentId, openTab, tabs } from './tabs.js';

export const TabStrip = ({ hasSide, children }: { hasSide: Signal<boolean>; children: ComponentChildren }) => (
  <div class="tabs">
    <IconButton
      icon={hasSide.value ? 'left' : 'table'}
      label="Tables and queries"
      aria-expanded={hasSide.value}
      onClick={() => (hasSide.value = !hasSide.value)}
    />
    <ul class="tabs-list" aria-label="Queries">
      {tabs.value.map(({ id, title }) => (
        <li key={id} class={id === currentId.value ? 'tab is-current' : 'tab'}>
          <button
            type="button"
            class="tab-name"
            aria-current={id === currentId.value ? 'true' : undefined}
            onClick={() => (currentId.value = id)}
          >
            {title}
          </button>
          <button type="button" class="tab-close" aria-label={`Close ${title}`} onClick={() => closeTab(id)}>
            <Icon name="close" />
          </button>
        </li>
      ))}
    </ul>
    <IconButton icon="plus" label="New query" onClick={() => openTab()} />
    <div class="tabs-end">{children}</div>
  </div>
);
