// Attacks that a page of another origin can try in the browser of a logged-in user. Ends when all requests are answered.
async ({ dashboard, actions, destroying, fields }) => {
  const body = () => new URLSearchParams(fields);

  const framed = () => {
    const frame = document.createElement("iframe");
    frame.name = `frame-${document.getElementsByTagName("iframe").length}`;
    document.body.append(frame);
    return [frame, new Promise((loaded) => frame.addEventListener("load", loaded))];
  };

  const form = (action) => {
    const [frame, loaded] = framed();
    const made = document.body.appendChild(document.createElement("form"));
    Object.assign(made, { method: "post", action: dashboard + action, target: frame.name });
    for (const [name, value] of Object.entries(fields)) {
      Object.assign(made.appendChild(document.createElement("input")), { type: "hidden", name, value });
    }
    made.submit();
    return loaded;
  };

  const image = (action) =>
    new Promise((answered) => {
      const made = new Image();
      made.onload = made.onerror = answered;
      made.src = `${dashboard}${action}?${body()}`;
    });

  // As a form would be sent, and as plain text.
  const post = (action, content) =>
    fetch(dashboard + action, { method: "POST", mode: "no-cors", credentials: "include", body: content }).catch(() => {});

  await Promise.all(actions.flatMap((action) => [image(action), post(action, body()), post(action, String(body()))]));
  await form(destroying);
  const [frame, loaded] = framed();
  frame.src = dashboard + "/queues";
  await loaded;
}
