(function(){
var root=document.documentElement,place=document.getElementById("theme"),button=document.createElement("button");
var dark=matchMedia("(prefers-color-scheme: dark)").matches;
function say(){button.textContent=dark?"Light":"Dark";button.setAttribute("aria-label",(dark?"Light":"Dark")+" colours");}
button.type="button";button.onclick=function(){dark=!dark;root.setAttribute("data-theme",dark?"dark":"light");say();};
say();place.appendChild(button);
addEventListener("beforeprint",function(){root.setAttribute("data-theme","light");});
})();
