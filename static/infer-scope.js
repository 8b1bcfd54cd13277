// The element <infer-scope>: a few kilobytes that show a prompt and a button. Everything else (the app, an engine, the
// model) is fetched when the reader presses Run, or when the page's author says so with loading="visible" or "eager".

const base = new URL('.', import.meta.url).href;
const settings = [
  'model', 'prompt', 'max-new-tokens', 'temperature', 'top-k', 'top-p', 'min-p', 'seed', 'cache', 'backend',
];
const defaultPrompt = 'Once upon a time, there was a brave girl named Zumo. One sunny day';

// What stands on the poster of a scene that is not about one prompt.
const posters = {
  memory: 'How many requests fit into an accelerator’s memory, and what sharing KV heads saves.',
  paged: 'Eight requests in one memory, in blocks and in reservations.',
  batching: 'Eight requests on three places of a batch.',
  speculative: 'A small model guesses, a large one checks.',
  window: 'A cache that drops what is old.',
};

// What a first run needs besides the app begins to load along with it: downloads, and the worker of the CPU engine, which is
// given the model from here, with what it has said so far. The app asks for each by its address and gets it once.
const begun = new Map();
const model = ['story', 'story.infer', 'story.tokenizer.bin'];
const take = (url) => {
  const found = begun.get(url);
  begun.delete(url);
  return found;
};
const download = (url) => {
  const response = fetch(url);
  response.catch(() => {}); // Whoever takes it hears of it.
  return response;
};
// Gives a worker copies of a model's files, since the app may need them for another engine, and promises to tell whether it could.
const give = (worker, name, files, addresses) => {
  const bytes = (response) => response.then((response) => (response.ok ? response.clone().arrayBuffer() : Promise.reject()));
  const given = Promise.all(addresses.map((address) => bytes(begun.get(address)))).then((buffers) => {
    worker.postMessage({ model: name, files: files.map((file, index) => [file, buffers[index]]) }, buffers);
    return true;
  }, () => false);
  return { model: name, given };
};
const begin = (element, ownModel) => {
  const [name, ...files] = ownModel || element.hasAttribute('model') ? [] : model;
  const addresses = files.map((file) => `${base}model/${file}`);
  for (const address of addresses) begun.set(address, download(address));
  // A worker of another origin's script needs a way round that the app knows.
  if (element.getAttribute('backend') === 'webgpu' || new URL(base).origin !== location.origin) return;
  const url = `${base}engine/worker.js?kind=cpu`;
  if (begun.has(url)) return;
  const worker = new Worker(url, { type: 'module' });
  const said = [];
  worker.onmessage = ({ data }) => said.push(data);
  worker.onerror = () => begun.delete(url); // The app will try by itself, and say what is wrong.
  begun.set(url, { worker, said, ...(name && give(worker, name, files, addresses)) });
  setTimeout(() => {
    take(url)?.worker.terminate();
    addresses.forEach(take);
  }, 20_000);
};

// One app serves all elements of a page. A failed download may be tried again.
let app;
const loadApp = (element, ownModel) => {
  if (app) return app;
  const wasm = download(`${base}inferscope-app_bg.wasm`);
  begin(element, ownModel);
  app = import(`${base}inferscope-app.js`)
    .then(async (module) => {
      await module.default({ module_or_path: wasm });
      return module;
    })
    .catch((cause) => {
      app = undefined;
      throw new Error('The widget’s files could not be loaded. Check the connection and press Run again.', { cause });
    });
  return app;
};

const poster = `<style>
:host { display: block }
.poster { all: initial; display: block; direction: ltr; font: 16px/1.5 system-ui, sans-serif; border: 1px solid #8886; border-radius: 10px; padding: 1.25em; color: CanvasText }
.poster p { margin: 0 0 1em; overflow-wrap: anywhere }
.poster button { font: inherit; font-weight: 600; padding: .5em 1.4em; border: 0; border-radius: 6px; cursor: pointer;
  background: #0b5fa5; color: #fff }
.poster.drop { outline: 3px dashed #0b5fa5; outline-offset: -3px }
.poster [role=alert] { margin: 1em 0 0; color: #b3261e }
</style><div class="poster"><p></p><button type="button" data-action="run">▶ Run</button></div>`;

class InferScope extends HTMLElement {
  static observedAttributes = settings;
  #handle;
  #mounting;
  #styles = {};
  #state = 'idle';

  constructor() {
    super();
    // The element and its app both tell of "loading": one of them is enough.
    let last = this.#state;
    this.addEventListener('statechange', (event) => {
      if (event.target !== this) return;
      if (event.detail.state === last) event.stopImmediatePropagation();
      last = event.detail.state;
    });
  }

  connectedCallback() {
    if (this.shadowRoot) return;
    this.attachShadow({ mode: 'open' });
    this.#showPoster();
    const loading = this.getAttribute('loading');
    if (loading === 'eager') this.load().catch(() => {});
    if (loading === 'visible') {
      const observer = new IntersectionObserver((entries) => {
        if (!entries.some((entry) => entry.isIntersecting)) return;
        observer.disconnect();
        this.load().catch(() => {});
      }, { rootMargin: '200px' });
      observer.observe(this);
    }
  }

  disconnectedCallback() {
    // Moving an element within the page takes it out and puts it back at once.
    queueMicrotask(() => {
      if (this.isConnected || !this.#handle) return;
      this.#handle.leave();
      this.#handle.free();
      this.#handle = this.#mounting = undefined;
      this.#state = 'idle';
      this.#showPoster();
    });
  }

  #poster() {
    return posters[this.getAttribute('scene')] ?? this.getAttribute('prompt') ?? defaultPrompt;
  }

  #showPoster() {
    const root = this.shadowRoot;
    root.innerHTML = poster;
    this.#styles = {};
    root.querySelector('p').textContent = this.#poster();
    const button = root.querySelector('button');
    // A mouse that goes down will come up; a finger may be on its way to scroll.
    button.onpointerdown = ({ button, pointerType }) => {
      if (button === 0 && pointerType === 'mouse') loadApp(this).catch(() => {});
    };
    button.onclick = () => this.run().catch(() => {});
    this.#takeFiles(root.querySelector('.poster'));
  }

  attributeChangedCallback(name, _, value) {
    this.#handle?.setAttribute(name, value);
    if (name === 'prompt' && !this.#handle && this.shadowRoot) {
      this.shadowRoot.querySelector('p').textContent = this.#poster();
    }
  }

  // The reader may drop a model of their own before anything is loaded.
  #takeFiles(poster) {
    const mark = (event) => {
      if (!event.dataTransfer?.types.includes('Files')) return;
      event.preventDefault();
      poster.classList.add('drop');
    };
    poster.ondragenter = poster.ondragover = mark;
    poster.ondragleave = () => poster.classList.remove('drop');
    poster.ondrop = (event) => {
      poster.classList.remove('drop');
      if (!event.dataTransfer.files.length) return;
      event.preventDefault();
      this.loadModel(event.dataTransfer.files).catch(() => {});
    };
  }

  // Each style sheet once; a widget without one of them is better than none.
  #loadStyle(name) {
    return (this.#styles[name] ??= new Promise((done) => {
      const link = document.createElement('link');
      link.rel = 'stylesheet';
      link.href = `${base}${name}`;
      link.onload = link.onerror = done;
      this.shadowRoot.append(link);
    }));
  }

  #mount(ownModel = false) {
    return (this.#mounting ??= (async () => {
      this.#become('loading');
      const root = this.shadowRoot;
      root.querySelector('[role=alert]')?.remove();
      try {
        const [module] = await Promise.all([loadApp(this, ownModel), this.#loadStyle('infer-scope.css')]);
        const parent = document.createElement('div');
        root.append(parent);
        this.#handle = module.mount(this, parent, base, defaultPrompt, (name) => this.#loadStyle(name), take);
        // Whoever pressed Run with the keyboard goes on from there.
        const focused = root.activeElement;
        root.querySelector('.poster').remove();
        if (focused) root.querySelector('.primary')?.focus();
        // Without it the terms in the widget are plain links.
        import(`${base}glossary.js`).then(({ attach }) => attach(root), () => {});
        return this.#handle;
      } catch (error) {
        this.#mounting = undefined;
        const sentence = document.createElement('p');
        sentence.setAttribute('role', 'alert');
        sentence.dataset.part = 'problem';
        sentence.textContent = error.message;
        root.querySelector('.poster')?.append(sentence);
        this.#become('error');
        this.dispatchEvent(new CustomEvent('error', { detail: error, bubbles: true, composed: true }));
        throw error;
      }
    })());
  }

  #become(state) {
    this.#state = state;
    this.dispatchEvent(new CustomEvent('statechange', { detail: { state }, bubbles: true, composed: true }));
  }

  get state() { return this.#handle?.state ?? this.#state; }
  get trace() { return this.#handle?.trace ?? null; }
  fullTrace(candidates) { return this.#handle?.fullTrace(candidates) ?? null; }

  async load() { return (await this.#mount()).load(); }
  async run(settings) { return (await this.#mount()).run(settings); }
  async loadModel(files) {
    // A drop's own list is emptied while the app loads.
    const list = files instanceof File ? [files] : [...files];
    return (await this.#mount(true)).loadModel(list);
  }
  play() { this.#handle?.play(); }
  pause() { this.#handle?.pause(); }
  step() { this.#handle ? this.#handle.step() : this.load().then(() => this.step(), () => {}); }
  back() { this.#handle?.back(); }
  seek(step) { this.#handle?.seek(step); }
  branch(step, token) { return this.#handle?.branch(step, token) ?? false; }
  reset() { this.#handle?.reset(); }
}

if (!customElements.get('infer-scope')) customElements.define('infer-scope', InferScope);
