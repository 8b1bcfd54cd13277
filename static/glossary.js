// Links to the glossary open their term in place: by hover, focus or tap. On the glossary's own page, a search. Works for
// links inside shadow roots too, and without it every link still leads to the glossary.

const page = new URL('glossary.html', import.meta.url).href;
let terms;

// The glossary's page is its data.
async function term(id) {
  terms ??= fetch(page)
    .then((answer) => (answer.ok ? answer.text() : ''))
    .then((text) => new DOMParser().parseFromString(text, 'text/html'));
  const title = (await terms).getElementById(id);
  const words = title?.nextElementSibling;
  return words && {
    title: title.textContent,
    words: [...words.querySelectorAll('p:not(.see)')].map(({ className, textContent }) => ({ className, textContent })),
  };
}

// The link to a term under an event, but not the one within a card.
const linkOf = (event) => event.composedPath().find((node) =>
  node instanceof HTMLAnchorElement && node.href.startsWith(`${page}#`) && !card?.contains(node));

const inScene = (link) => link.getRootNode() instanceof ShadowRoot;

let card, owner;

// What is fetched late moves what stands below it, and the card goes along with its link.
const follow = new ResizeObserver(() => card && put());

function put() {
  // Where nothing narrows it, its size is the one that it will have.
  card.style.left = card.style.top = '0';
  const [place, size] = [owner.getBoundingClientRect(), card.getBoundingClientRect()];
  const left = Math.max(8, Math.min(place.left, document.documentElement.clientWidth - size.width - 8));
  const below = place.bottom + size.height + 12 < innerHeight || place.top < size.height + 12;
  const top = below ? place.bottom + 6 : place.top - size.height - 6;
  card.style.left = `${left - size.left}px`;
  card.style.top = `${top - size.top}px`;
}

function close() {
  follow.disconnect();
  owner?.removeAttribute('aria-describedby');
  card?.remove();
  card = owner = undefined;
}

async function open(link) {
  if (owner === link) return;
  close();
  owner = link;
  const found = await term(link.hash.slice(1));
  if (!found || owner !== link) return;
  card = document.createElement('div');
  card.className = 'term-card';
  card.id = 'term-card';
  card.role = 'tooltip';
  const title = document.createElement('b');
  title.textContent = found.title;
  card.append(title, ...found.words.map(({ className, textContent }) =>
    Object.assign(document.createElement('p'), { className, textContent })));
  const more = Object.assign(document.createElement('a'), { href: link.href, textContent: 'Open the glossary' });
  card.append(more);
  if (inScene(link)) Object.assign(more, { target: '_blank', rel: 'noopener' });
  // Beside its link, so that a shadow root's own looks and descriptions reach it.
  (inScene(link) ? link.getRootNode() : document.body).append(card);
  link.setAttribute('aria-describedby', card.id);
  put();
  follow.observe(document.body);
}

// A moment to get from the word into its card.
let leaving;
const stay = () => clearTimeout(leaving);
const leave = () => {
  stay();
  leaving = setTimeout(close, 250);
};

// Moves within a shadow root are not heard outside of it, so each root with terms in it is listened to by itself.
export function attach(root) {
  root.addEventListener('pointerover', (event) => {
    if (event.pointerType === 'touch') return;
    const link = linkOf(event);
    if (link) {
      stay();
      open(link);
    } else if (card?.contains(event.composedPath()[0])) stay();
    else if (owner) leave();
  });
  root.addEventListener('focusin', (event) => {
    const link = linkOf(event);
    if (link) open(link);
    else if (!card?.contains(event.composedPath()[0])) close();
  });
}

if (!document.querySelector('main.glossary')) {
  attach(document);
  let touched = false;
  document.addEventListener('pointerdown', (event) => {
    touched = event.pointerType === 'touch';
    if (!linkOf(event) && !card?.contains(event.composedPath()[0])) close();
  });
  // The first tap opens the card; a way on is in it. So does a click within a scene, whose run would be lost.
  document.addEventListener('click', (event) => {
    const link = linkOf(event);
    const plain = !event.ctrlKey && !event.metaKey && !event.shiftKey;
    if (link && (touched || (plain && inScene(link)))) {
      event.preventDefault();
      open(link);
    }
  });
  document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') close();
  });
} else {
  const field = document.createElement('label');
  field.className = 'find';
  field.innerHTML = '<span>Find</span> <input type="search" placeholder="a word, or part of one" autocomplete="off">';
  const none = Object.assign(document.createElement('p'), { textContent: 'No term has that in it.', hidden: true });
  none.role = 'status';
  document.querySelector('main.glossary dl').before(field, none);
  const all = [...document.querySelectorAll('dt')].map((title) => [title, title.nextElementSibling]);
  field.querySelector('input').addEventListener('input', ({ target }) => {
    const wanted = target.value.trim().toLowerCase();
    let shown = 0;
    for (const pair of all) {
      const fits = pair.some(({ textContent }) => textContent.toLowerCase().includes(wanted));
      for (const part of pair) part.hidden = !fits;
      shown += fits;
    }
    none.hidden = shown > 0;
  });
}
