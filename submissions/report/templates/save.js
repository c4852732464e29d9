(function(){
function list(node){return [node].concat(Array.prototype.slice.call(node.querySelectorAll("*")));}
function standalone(svg){
var copy=svg.cloneNode(true),from=list(svg),box=svg.viewBox.baseVal,area=document.createElementNS(svg.namespaceURI,"rect");
list(copy).forEach(function(each,index){
var style=getComputedStyle(from[index]),text=each.localName==="text";
each.setAttribute("color",style.color);
if(text||each===copy){each.setAttribute("font-family",style.fontFamily);each.setAttribute("font-size",style.fontSize);}
if(text&&style.stroke!=="none"){["stroke","stroke-width","stroke-linejoin","paint-order"].forEach(function(name){each.setAttribute(name,style.getPropertyValue(name));});}
});
copy.setAttribute("width",box.width);copy.setAttribute("height",box.height);
area.setAttribute("width","100%");area.setAttribute("height","100%");
area.setAttribute("fill",getComputedStyle(svg.closest("figure")).backgroundColor);
copy.insertBefore(area,copy.firstChild);
return {text:new XMLSerializer().serializeToString(copy),width:box.width,height:box.height};
}
function save(blob,name){
var link=document.createElement("a");link.href=URL.createObjectURL(blob);link.download=name;
document.body.appendChild(link);link.click();link.remove();setTimeout(function(){URL.revokeObjectURL(link.href);},10000);
}
function png(drawn,name){
var image=new Image();
image.onload=function(){
var canvas=document.createElement("canvas");canvas.width=2*drawn.width;canvas.height=2*drawn.height;
canvas.getContext("2d").drawImage(image,0,0,canvas.width,canvas.height);
canvas.toBlob(function(blob){save(blob,name);},"image/png");
};
image.src="data:image/svg+xml;charset=utf-8,"+encodeURIComponent(drawn.text);
}
Array.prototype.forEach.call(document.querySelectorAll("figure.figure"),function(figure,index){
var svg=figure.querySelector("svg"),row=document.createElement("p");
if(!svg)return;
var title=svg.querySelector("title"),name=figure.id||"figure-"+(index+1);
row.className="save";row.textContent="Save as";
["SVG","PNG"].forEach(function(format){
var button=document.createElement("button");button.type="button";button.textContent=format;
button.setAttribute("aria-label","Save as "+format+": "+(title?title.textContent:name)+(figure.id?", "+figure.id:""));
button.onclick=function(){var drawn=standalone(svg);
if(format==="PNG")png(drawn,name+".png");else save(new Blob([drawn.text],{type:"image/svg+xml"}),name+".svg");};
row.appendChild(button);
});
figure.appendChild(row);
});
})();
