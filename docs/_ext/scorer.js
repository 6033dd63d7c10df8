// Order the results of the search: pages that explain a thing come before its glossary entry.
var Scorer = {
  score: ([page, , , , score]) => (page === "glossary" ? score / 2 : score),
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
};
