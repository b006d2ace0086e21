// The site's search, as its pages run it, for the words of the command line: node search.js SITE WORD...
// Prints a JSON object: for each word its results, the best first, as [document, anchor, title].
"use strict";

const { readFileSync } = require("node:fs");
const vm = require("node:vm");

const [site, ...words] = process.argv.slice(2);
const read = (path) => readFileSync(`${site}/${path}`, "utf8");

// The scripts look for elements of the page, which play no part in what is found.
const page = {
  document: {
    addEventListener() {},
    documentElement: { dataset: {} },
    getElementById: () => null,
    querySelector: () => null,
    readyState: "loading",
  },
  localStorage: { setItem() {} },
};
page.window = page;
const context = vm.createContext(page);
const scripts = "documentation_options doctools sphinx_highlight base-stemmer english-stemmer language_data searchtools";
for (const name of scripts.split(" ")) vm.runInContext(read(`_static/${name}.js`), context);

vm.runInContext("Search.setIndex = (index) => { Search._index = index; };", context);
vm.runInContext(read("searchindex.js"), context);
page.words = words;
const results = vm.runInContext("words.map((word) => Search._performSearch(...Search._parseQuery(word)))", context);

const told = words.map((word, k) => {
  const best = results[k].reverse().slice(0, 5); // they come from the least to the best
  return [word, best.map(([document, title, anchor]) => [document, anchor, title])];
});
console.log(JSON.stringify(Object.fromEntries(told)));
