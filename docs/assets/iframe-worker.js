// Search without a web server. Browsers do not start workers for pages opened from file://, so
// there the theme's search script runs in a hidden frame that behaves like a worker.
(() => {
  if (location.protocol !== "file:") return;

  class FrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.onmessage = null;
      this.pending = []; // messages that arrive before the script has been loaded
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.scope = frame.contentWindow;
      this.scope.postMessage = (data) => this.receive(data);
      this.scope.importScripts = (...urls) =>
        urls.reduce((loaded, each) => loaded.then(() => this.load(each)), Promise.resolve());
      this.load(url).then(() => {
        const messages = this.pending;
        this.pending = null;
        messages.forEach((data) => this.deliver(data));
      });
    }

    load(url) {
      const script = this.scope.document.createElement("script");
      script.src = url;
      const loaded = new Promise((resolve, reject) => {
        script.onload = resolve;
        script.onerror = reject;
      });
      this.scope.document.body.append(script);
      return loaded;
    }

    deliver(data) {
      this.scope.dispatchEvent(new this.scope.MessageEvent("message", { data }));
    }

    postMessage(data) {
      if (this.pending) this.pending.push(data);
      else this.deliver(data);
    }

    receive(data) {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      if (this.onmessage) this.onmessage(event);
    }

    terminate() {
      this.scope.frameElement.remove();
    }
  }

  window.Worker = FrameWorker;
  window.IFrameWorker = FrameWorker; // the name that the theme's search script looks for
})();
