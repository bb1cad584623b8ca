// What is wrong with the page as it is shown, one sentence each. Names and roles are those that the browser tells
// assistive technology (`computedName`, `computedRole`), not what the markup seems to say.
() => {
    const wrong = [];
    const all = (selector) => [...document.querySelectorAll(selector)];
    const style = (element) => getComputedStyle(element);
    const isShown = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
    const told = (element) => {
        const text = element.outerHTML.replace(/\s+/g, " ");
        return text.length > 160 ? text.slice(0, 160) + "…" : text;
    };

    // The document
    if (!document.documentElement.lang) wrong.push("the page has no language");
    if (!document.title.trim()) wrong.push("the page has no title");
    if (all("main").filter(isShown).length !== 1) wrong.push("there is not one main part");
    if (all("h1").filter(isShown).length !== 1) wrong.push("there is not one h1");
    const levels = all("h1,h2,h3,h4,h5,h6").filter(isShown).map((one) => [Number(one.tagName[1]), one]);
    levels.forEach(([level, one], at) => {
        if (at && level > levels[at - 1][0] + 1) wrong.push(`a level of headings is left out: ${told(one)}`);
    });
    const ids = new Set();
    for (const { id } of all("[id]")) {
        if (ids.has(id)) wrong.push(`the id ${id} stands twice`);
        ids.add(id);
    }
    for (const name of ["for", "aria-labelledby", "aria-describedby", "aria-controls"])
        for (const one of all(`[${name}]`).filter(isShown))
            for (const id of one.getAttribute(name).split(/\s+/))
                if (!document.getElementById(id)) wrong.push(`${name}=${id} leads nowhere: ${told(one)}`);

    // What can be used has a name, can be reached, and shows that it has been
    const usable = all("a[href],button,input:not([type=hidden]),select,textarea,summary,[role=button],[tabindex='0']")
        .filter(isShown);
    for (const one of usable) {
        if (!one.computedName.trim() && one.tabIndex >= 0) wrong.push(`it has no name: ${told(one)}`);
        if (one.closest("[aria-hidden=true]")) wrong.push(`it is hidden from some and usable: ${told(one)}`);
        if (one.tabIndex > 0) wrong.push(`it is out of turn: ${told(one)}`);
    }
    const before = document.activeElement;
    for (const one of usable.filter((one) => !one.disabled && one.tabIndex >= 0)) {
        one.focus({ focusVisible: true, preventScroll: true });
        if (document.activeElement !== one) continue; // a menu that is closed
        const seen = [one, ...(one.labels ?? []), one.parentElement].some((it) => {
            const { outlineStyle, outlineWidth, boxShadow } = style(it);
            return (outlineStyle !== "none" && parseFloat(outlineWidth) >= 1) || boxShadow !== "none";
        });
        if (!seen) wrong.push(`nobody sees that it has the focus: ${told(one)}`);
    }
    before?.focus?.({ preventScroll: true });
    document.activeElement?.blur?.();
    for (const one of all("img,svg[role=img],[role=img],progress,meter,[role=progressbar],dialog[open]").filter(isShown))
        if (!one.computedName.trim() && one.getAttribute("alt") !== "") wrong.push(`it has no words: ${told(one)}`);
    for (const table of all("table").filter(isShown))
        if (!table.querySelector("th")) wrong.push(`a table without headings: ${told(table)}`);

    // Contrast of text against what is behind it
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
    const ground = document.documentElement;
    const page = matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18] : [255, 255, 255];
    const behind = (element) => {
        const layers = [];
        for (let one = element; one; one = one.parentElement) {
            const found = colour(style(one).backgroundColor);
            if (found[3] > 0) layers.push(found);
            if (found[3] === 1) break;
            if (one === ground) layers.push([...page, 1]);
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
        for (let one = element; one; one = one.parentElement) opacity *= parseFloat(style(one).opacity);
        const back = behind(element);
        const [red, green, blue, alpha] = colour(element.ownerSVGElement ? fill : color);
        const front = over([red, green, blue, alpha * opacity], back);
        const [light, dark] = [brightness(front), brightness(back)].sort((a, b) => b - a);
        const contrast = (light + 0.05) / (dark + 0.05);
        const size = parseFloat(fontSize);
        const isLarge = size >= 24 || (size >= 18.66 && Number(fontWeight) >= 700);
        if (contrast < (isLarge ? 3 : 4.5))
            faint.add(`${contrast.toFixed(2)} is too little contrast: ${element.tagName.toLowerCase()}.${element.getAttribute("class") ?? ""} on ${back.map(Math.round)}`);
    }
    wrong.push(...faint);

    // Size: what a finger must hit, and the page as a whole
    for (const one of all("button,select,input:not([type=hidden],[type=checkbox],[type=radio])").filter(isShown)) {
        const box = one.getBoundingClientRect();
        if (box.width < 24 || box.height < 24) wrong.push(`too small for a finger (${box.width.toFixed()}×${box.height.toFixed()}): ${told(one)}`);
    }
    const root = document.scrollingElement;
    if (root.scrollWidth > root.clientWidth) {
        const wide = all("body *").filter((one) => isShown(one) && one.getBoundingClientRect().right > root.clientWidth + 1);
        const cause = wide.filter((one) => !wide.some((other) => other !== one && one.contains(other)));
        wrong.push(`the page is ${root.scrollWidth - root.clientWidth} px too wide: ${cause.slice(0, 3).map(told).join(" | ")}`);
    }
    return wrong;
}
