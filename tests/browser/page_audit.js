// Returns the faults of the visible page, one sentence each. Names and roles are those that the browser reports to
// assistive technology (`computedName`, `computedRole`), not those in the markup.
() => {
    const faults = [];
    const all = (selector) => [...document.querySelectorAll(selector)];
    const style = (element) => getComputedStyle(element);
    const modal = document.querySelector("dialog:modal"); // while one is open, the rest of the page does not exist
    const isShown = (element) =>
        (!modal || modal.contains(element)) && element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
    const excerpt = (element) => {
        const text = element.outerHTML.replace(/\s+/g, " ");
        return text.length > 160 ? text.slice(0, 160) + "…" : text;
    };

    // The document
    if (!document.documentElement.lang) faults.push("the page has no language");
    if (!document.title.trim()) faults.push("the page has no title");
    if (!modal && all("main").filter(isShown).length !== 1) faults.push("the page must have exactly one main element");
    if (!modal && all("h1").filter(isShown).length !== 1) faults.push("the page must have exactly one h1");
    const levels = all("h1,h2,h3,h4,h5,h6").filter(isShown).map((heading) => [Number(heading.tagName[1]), heading]);
    levels.forEach(([level, heading], at) => {
        if (at && level > levels[at - 1][0] + 1) faults.push(`a heading level is skipped: ${excerpt(heading)}`);
    });
    const ids = new Set();
    for (const { id } of all("[id]")) {
        if (ids.has(id)) faults.push(`the id ${id} is used twice`);
        ids.add(id);
    }
    for (const name of ["for", "aria-labelledby", "aria-describedby", "aria-controls"])
        for (const element of all(`[${name}]`).filter(isShown))
            for (const id of element.getAttribute(name).split(/\s+/))
                if (!document.getElementById(id)) faults.push(`${name}=${id} refers to no element: ${excerpt(element)}`);

    // Interactive elements have a name, can be focused, and show the focus
    const usable = all("a[href],button,input:not([type=hidden]),select,textarea,summary,[role=button],[tabindex='0']")
        .filter(isShown);
    for (const element of usable) {
        if (!element.computedName.trim() && element.tabIndex >= 0) faults.push(`no name: ${excerpt(element)}`);
        if (element.closest("[aria-hidden=true]")) faults.push(`interactive but aria-hidden: ${excerpt(element)}`);
        if (element.tabIndex > 0) faults.push(`positive tabindex: ${excerpt(element)}`);
    }
    const before = document.activeElement;
    for (const element of usable.filter((candidate) => !candidate.disabled && candidate.tabIndex >= 0)) {
        element.focus({ focusVisible: true, preventScroll: true });
        if (document.activeElement !== element) continue; // inside a closed menu
        const isFocusVisible = [element, ...(element.labels ?? []), element.parentElement].some((shown) => {
            const { outlineStyle, outlineWidth, boxShadow } = style(shown);
            return (outlineStyle !== "none" && parseFloat(outlineWidth) >= 1) || boxShadow !== "none";
        });
        if (!isFocusVisible) faults.push(`the focus is not visible: ${excerpt(element)}`);
    }
    before?.focus?.({ preventScroll: true });
    document.activeElement?.blur?.();
    for (const image of all("img,svg[role=img],[role=img],progress,meter,[role=progressbar],dialog[open]").filter(isShown))
        if (!image.computedName.trim() && image.getAttribute("alt") !== "") faults.push(`no text alternative: ${excerpt(image)}`);
    for (const table of all("table").filter(isShown))
        if (!table.querySelector("th")) faults.push(`a table without headings: ${excerpt(table)}`);

    // Contrast between text and background
    const pencil = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    const known = new Map();
    const colour = (text) => {
        if (!known.has(text)) {
            pencil.clearRect(0, 0, 1, 1);
            pencil.fillStyle = text;
            pencil.fillRect(0, 0, 1, 1);
            const [red, green, blue, alpha] = pencil.getImageData(0, 0, 1, 1).data;
            known.set(text, [red, green, blue, alpha / 255]);
        }
        return known.get(text);
    };
    const over = (front, back) => front.slice(0, 3).map((part, at) => part * front[3] + back[at] * (1 - front[3]));
    const rootElement = document.documentElement;
    const page = matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18] : [255, 255, 255];
    const behind = (element) => {
        const layers = [];
        for (let ancestor = element; ancestor; ancestor = ancestor.parentElement) {
            const found = colour(style(ancestor).backgroundColor);
            if (found[3] > 0) layers.push(found);
            if (found[3] === 1) break;
            if (ancestor === rootElement) layers.push([...page, 1]);
        }
        return layers.reduceRight((back, front) => over(front, back), page);
    };
    const brightness = (parts) => {
        const [red, green, blue] = parts.map((part) => {
            const share = part / 255;
            return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const faint = new Set();
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const element = walker.currentNode.parentElement;
        if (!walker.currentNode.textContent.trim() || !isShown(element) || element.closest("[disabled]")) continue;
        const { color, fill, fontSize, fontWeight } = style(element);
        let opacity = 1;
        for (let ancestor = element; ancestor; ancestor = ancestor.parentElement) opacity *= parseFloat(style(ancestor).opacity);
        const back = behind(element);
        const [red, green, blue, alpha] = colour(element.ownerSVGElement ? fill : color);
        const front = over([red, green, blue, alpha * opacity], back);
        const [light, dark] = [brightness(front), brightness(back)].sort((a, b) => b - a);
        const contrast = (light + 0.05) / (dark + 0.05);
        const size = parseFloat(fontSize);
        const isLarge = size >= 24 || (size >= 18.66 && Number(fontWeight) >= 700);
        if (contrast < (isLarge ? 3 : 4.5))
            faint.add(`${contrast.toFixed(2)} is too low a contrast: ${element.tagName.toLowerCase()}.${element.getAttribute("class") ?? ""} on ${back.map(Math.round)}`);
    }
    faults.push(...faint);

    // Size of touch targets and of the page
    for (const target of all("button,select,input:not([type=hidden],[type=checkbox],[type=radio])").filter(isShown)) {
        const box = target.getBoundingClientRect();
        if (box.width < 24 || box.height < 24) faults.push(`touch target too small (${box.width.toFixed()}×${box.height.toFixed()}): ${excerpt(target)}`);
    }
    // Buttons of a row cover none of its texts: narrow windows place them over the cards of a table
    const meet = (one, other) =>
        Math.min(one.right, other.right) - Math.max(one.left, other.left) > 1 &&
        Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top) > 1;
    const clipped = (line, element, row) => {
        let { left, right, top, bottom } = line;
        for (; element !== row; element = element.parentElement) {
            if (style(element).overflowX === "visible") continue;
            const box = element.getBoundingClientRect();
            [left, right] = [Math.max(left, box.left), Math.min(right, box.right)];
            [top, bottom] = [Math.max(top, box.top), Math.min(bottom, box.bottom)];
        }
        return { left, right, top, bottom };
    };
    for (const row of all("tr").filter((candidate) => isShown(candidate) && candidate.querySelector("button"))) {
        const buttons = [...row.querySelectorAll("button")].filter(isShown);
        const texts = document.createTreeWalker(row, NodeFilter.SHOW_TEXT);
        while (texts.nextNode()) {
            const { currentNode: text } = texts;
            if (!text.textContent.trim() || !isShown(text.parentElement)) continue;
            const range = document.createRange();
            range.selectNodeContents(text);
            const lines = [...range.getClientRects()].map((line) => clipped(line, text.parentElement, row));
            const over = buttons.find((button) => !button.contains(text) && lines.some((line) => meet(line, button.getBoundingClientRect())));
            if (over) faults.push(`a button covers "${text.textContent.trim().slice(0, 40)}": ${excerpt(over)}`);
        }
    }
    const root = document.scrollingElement;
    if (root.scrollWidth > root.clientWidth) {
        const wide = all("body *").filter((element) => isShown(element) && element.getBoundingClientRect().right > root.clientWidth + 1);
        const cause = wide.filter((element) => !wide.some((other) => other !== element && element.contains(other)));
        faults.push(`the page is ${root.scrollWidth - root.clientWidth} px too wide: ${cause.slice(0, 3).map(excerpt).join(" | ")}`);
    }
    return faults;
}
