/** A button that opens a short list of actions, with the keys that the ARIA guide specifies for menus. */
import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

export interface MenuItem {
  readonly label: string;
  readonly hint?: string;
  readonly run: () => void;
}

export function Menu({
  label,
  items,
  title,
  children,
}: {
  label: string;
  items: readonly MenuItem[];
  title?: string;
  children: ComponentChildren;
}) {
  const isOpen = useSignal(false);
  const place = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const entries = () => [...(place.current?.querySelectorAll<HTMLElement>('[role=menuitem]') ?? [])];

  useEffect(() => {
    if (!isOpen.value) return;
    entries()[0]?.focus();
    const close = (event: Event) => {
      if (!place.current?.contains(event.target as Node)) isOpen.value = false;
    };
    addEventListener('pointerdown', close);
    return () => removeEventListener('pointerdown', close);
  }, [isOpen.value]);

  const takeKey = (event: KeyboardEvent) => {
    if (!isOpen.value) return;
    const all = entries();
    const at = all.indexOf(document.activeElement as HTMLElement);
    const next = { ArrowDown: at + 1, ArrowUp: at - 1 + all.length, Home: 0, End: all.length - 1 }[event.key];
    if (next !== undefined) all[next % all.length]?.focus();
    else if (event.key === 'Escape') button.current?.focus();
    else if (event.key !== 'Tab') return;
    if (next === undefined) isOpen.value = false;
    if (event.key === 'Tab') return;
    event.preventDefault();
    event.stopPropagation();
  };

  return (
    <div class="menu" ref={place} onKeyDown={takeKey}>
      <button
        ref={button}
        type="button"
        class="button"
        title={title}
        aria-haspopup="menu"
        aria-expanded={isOpen.value}
        onClick={() => (isOpen.value = !isOpen.value)}
      >
        {children}
      </button>
      {isOpen.value && (
        <div class="menu-list" role="menu" aria-label={label}>
          {items.map(({ label: text, hint, run }, i) => (
            <button
              key={i}
              type="button"
              role="menuitem"
              tabIndex={-1}
              onClick={() => {
                isOpen.value = false;
                button.current?.focus();
                run();
              }}
            >
              {text}
              {hint !== undefined && <span class="quiet">{hint}</span>}
            </button>
          ))}
        </div>
      )}
    </div>
  );
}
