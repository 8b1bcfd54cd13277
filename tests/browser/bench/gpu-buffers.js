// A *buffer* is memory on the GPU that an engine asked for. Put before an engine's worker, this counts the bytes of those that
// it holds, on any GPU: the browser itself tells nobody. A buffer is gone when it is destroyed, or collected as garbage.

self.gpuBufferBytes = 0;

if (self.GPUDevice) {
  const sizes = new WeakMap();
  const gone = (size) => { self.gpuBufferBytes -= size; };
  const collected = new FinalizationRegistry(gone);

  const create = GPUDevice.prototype.createBuffer;
  GPUDevice.prototype.createBuffer = function (descriptor) {
    const buffer = create.call(this, descriptor);
    sizes.set(buffer, descriptor.size);
    collected.register(buffer, descriptor.size, buffer);
    self.gpuBufferBytes += descriptor.size;
    return buffer;
  };

  const destroy = GPUBuffer.prototype.destroy;
  GPUBuffer.prototype.destroy = function () {
    if (sizes.has(this)) {
      gone(sizes.get(this));
      sizes.delete(this);
      collected.unregister(this);
    }
    return destroy.call(this);
  };
}
